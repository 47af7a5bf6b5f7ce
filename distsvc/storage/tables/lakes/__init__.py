"""Tables with a log: Delta Lake and Iceberg."""
