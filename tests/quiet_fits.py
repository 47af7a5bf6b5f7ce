"""Fits that may warn."""

import warnings


def quietly(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X)
