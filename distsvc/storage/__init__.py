"""Bytes: stores, rows, tables, publishing."""
