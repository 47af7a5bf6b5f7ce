"""Bytes: tables to read, parts to publish, models as JSON and arrays."""
