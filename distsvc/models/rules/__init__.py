"""Rules, the saved part of a model that labels rows, and what explains them.

`rule` is their base, `fields` checks saved rules, `joined` merges clusters, `membership` has the
shares of rows in clusters, and `profiles` the columns that separate a cluster from other rows.
"""
