"""Mixtures of normals times independent categorical distributions."""
