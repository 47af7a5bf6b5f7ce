"""Clusters that are the components of a mixture of normals and categories."""
