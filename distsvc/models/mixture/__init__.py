"""Mixtures of normals times categorical distributions, and the populations that judge partitions.

`density` has the mixture and its fit by expectation maximisation, `search` chooses the number of
components, and `labeller` labels rows. A cluster of a mixture is normal. `population` describes a
cluster more flexibly; the default algorithm compares partitions by it.
"""
