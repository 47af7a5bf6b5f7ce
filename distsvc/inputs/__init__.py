"""Arrays and tables that users give in Python, of any kind, read piece by piece."""
