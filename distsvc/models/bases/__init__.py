"""Base classes of estimators: checks of rows, fits in passes, streams, lazy attributes."""
