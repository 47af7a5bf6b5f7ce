"""The label pass: one file of labels for each partition."""
