"""Delta Lake and Iceberg tables."""
