"""Values computed from the report: the answer in words, names of clusters, cells of tables."""
