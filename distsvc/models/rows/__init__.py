"""Samples, scales and neighbours of rows, and other tools that several algorithms share."""
