"""Divisive trees of hyperplanes through regions of low density."""
