"""Forecasts of memory and time."""
