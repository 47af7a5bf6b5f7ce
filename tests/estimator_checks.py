"""Checks of scikit-learn's that some labellings refuse."""

COUNTED = (
    "check_dont_overwrite_parameters",
    "check_clustering",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
)
"""Checks of scikit-learn's that set n_clusters where an estimator has it."""
