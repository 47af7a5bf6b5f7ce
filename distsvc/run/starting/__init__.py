"""The start of a run: open the table, hold the output, resume."""
