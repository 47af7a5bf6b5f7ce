"""Results that follow from night to night: ids of clusters, and drift."""
