"""Blocks of rows: columns, features, categories, filters."""
