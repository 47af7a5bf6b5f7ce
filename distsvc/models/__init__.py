"""Estimators and the phase functions that `fit` and the distributed job share."""
