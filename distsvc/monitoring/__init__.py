"""Announcements of runs: metrics for Prometheus and lineage events."""
