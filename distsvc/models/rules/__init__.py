"""Rules, the saved part of a model that labels rows, and explanations of labels.

`rule` has the base class, `fields` checks saved rules, and `joined` merges clusters. `membership`
computes shares of rows in clusters, and `profiles` the columns that separate a cluster from others.
"""
