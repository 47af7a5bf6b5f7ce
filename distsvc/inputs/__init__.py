"""Users' arrays and tables, from any library, read in pieces."""
