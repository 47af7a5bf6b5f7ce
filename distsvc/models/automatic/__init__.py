"""The default algorithm: views propose partitions, and one measure decides among them."""
