"""Clusters of rows that are connected in a graph of nearest neighbours."""
