"""Whole jobs: time, memory, forecasts, and what answers depend on."""
