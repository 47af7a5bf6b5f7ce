"""The saved model of a run."""
