"""How good answers are: clusters, outliers and memberships, beside peers and known classes."""
