"""Tables as sources of rows: Parquet, CSV, svmlight, Zarr and lakes."""
