"""The step from a surveyed table to a rule, or to that of an earlier run."""
