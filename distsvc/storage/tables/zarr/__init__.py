"""Zarr arrays and groups as tables."""
