"""Base classes of estimators, with the checks of rows and the passes over rows that they share."""
