"""Checks of scikit-learn's that some labellings refuse, and fits that may warn."""

import warnings

COUNTED = (
    "check_dont_overwrite_parameters",
    "check_clustering",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
)
"""Checks of scikit-learn's that set n_clusters where an estimator has it."""


def quietly(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X)
