"""Mixtures that model a table's numbers and categories, and more flexible densities of clusters.

`density` fits a mixture by expectation maximisation, `search` chooses the number of components, and
`labeller` labels rows. `population` fits the flexible densities, by which the default algorithm
compares partitions.
"""
