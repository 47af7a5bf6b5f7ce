"""A run beside the previous one: cluster ids, drift, checks."""
