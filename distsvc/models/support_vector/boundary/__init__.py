"""Support vector clustering with a given gamma, as in the papers."""
