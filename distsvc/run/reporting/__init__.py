"""The report of a run: summary, pictures, files, manifest."""
