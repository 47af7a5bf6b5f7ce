"""Models of columns: maps of stored values to the numbers that learners and rules use."""
