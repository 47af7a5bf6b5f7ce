"""What the page computes from the report: the answer, names of clusters, numbers of tables."""
