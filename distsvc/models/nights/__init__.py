"""Comparison of two models: which cluster ids continue, and drift."""
