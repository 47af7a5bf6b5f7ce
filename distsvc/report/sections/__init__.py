"""Values that the page computes from the report: answer, names of clusters, numbers of tables."""
