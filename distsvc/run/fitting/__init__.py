"""The step from a table to labels, by a new rule or the previous run's rule."""
