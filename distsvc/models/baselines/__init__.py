"""The algorithms with which the papers compare their own."""
