"""Realistic tables with known classes and the best possible agreement."""
