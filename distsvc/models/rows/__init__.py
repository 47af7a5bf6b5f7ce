"""Rows as learners see them: samples, scales, checks, checkpoints."""
