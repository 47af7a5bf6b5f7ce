"""Texts that are computed from the report: the answer in words, and names of clusters."""
