"""What others are told of runs: metrics for Prometheus and lineage events."""
