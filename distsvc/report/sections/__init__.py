"""What the page computes from the report: the answer, names of clusters, tables of columns."""
