"""Readers of users' arrays and tables, from any library, block by block."""
