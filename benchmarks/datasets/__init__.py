"""The data sets on which the papers were evaluated: what each one is, and one way to load it."""
