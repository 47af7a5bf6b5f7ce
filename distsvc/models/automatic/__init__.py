"""The default algorithm: views of a table propose partitions, and the best is chosen."""
