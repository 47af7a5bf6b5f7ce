"""The job file: its configuration, dates, and the parameters of algorithms."""
