"""Storage: folders and buckets, rows, tables, publishing."""
