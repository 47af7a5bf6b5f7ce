"""Estimators, and the functions on arrays that their `fit` and jobs share."""
