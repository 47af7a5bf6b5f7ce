"""CSV files as tables."""
