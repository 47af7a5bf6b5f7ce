"""The job of a table for which no job file was written."""
