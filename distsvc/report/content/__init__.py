"""The typed content of ``report.json``."""
