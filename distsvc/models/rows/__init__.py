"""Rows for learners: samples, scales, neighbours, outlier rows, checkpoints."""
