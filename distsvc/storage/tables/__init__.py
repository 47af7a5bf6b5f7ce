"""Tables as sources of rows: Parquet, CSV, svmlight, Zarr, Delta Lake and Iceberg."""
