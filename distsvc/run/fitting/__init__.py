"""The step from a table to labels, by a new rule or that of an earlier run."""
