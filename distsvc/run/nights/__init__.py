"""Comparison of a run with the previous run: cluster ids, drift, checks."""
