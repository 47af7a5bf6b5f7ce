"""The default algorithm: two views of a table propose clusters, and one measure compares them.

A view is a way to look at the rows: a graph that connects near rows, a mixture of distributions, or
level trees of the density. `engine` has the steps in order:

1. Each column gets a model (`distsvc.models.columns`), so that rounding, skew, flags and categories
   don't look like gaps between clusters. Some tables, such as pixels, stay as stored.
2. If columns are modelled, `modelled_views` lets a graph and mixtures propose partitions, and
   `decision` compares these by their BIC. One cluster is a proposal, too.
3. If columns stay as stored, `stored_views` chooses between level trees of the columns and level
   trees of the graph.
4. `rule` has the classes that label the rows of the whole table.

In later runs, `previous` carries the last answer over, so that clusters keep their ids.
"""
