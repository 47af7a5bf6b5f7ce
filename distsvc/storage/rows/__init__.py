"""Rows of tables: columns, features, categories, filters and blocks."""
