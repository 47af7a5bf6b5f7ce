"""Comparison of a night's table and model with an earlier night's.

`continuity` finds which clusters continue and keep their ids; `drift` compares the columns.
"""
