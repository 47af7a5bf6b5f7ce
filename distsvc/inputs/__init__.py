"""Tables that estimators read block by block: dask, Zarr, and whatever speaks Arrow."""
