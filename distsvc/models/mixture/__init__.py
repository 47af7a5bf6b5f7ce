"""Mixtures of normals times categorical distributions, and more flexible densities of clusters.

`density` has the mixture and its fit by expectation maximisation, `search` chooses the number of
components, and `labeller` labels rows. `population` has the flexible densities, by which the
default algorithm compares partitions.
"""
