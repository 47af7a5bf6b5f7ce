"""Clusters of rows that hang together along a graph of near rows."""
