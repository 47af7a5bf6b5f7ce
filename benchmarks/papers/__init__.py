"""The evaluation suites: every system of the papers on their data, and the tables of the result."""
