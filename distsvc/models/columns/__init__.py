"""Models of columns: they turn stored values into numbers without spurious gaps.

Rounding, flags, categories and many zeros leave empty gaps, which would look like the valleys
between clusters. `density` describes one column of numbers, `maps` maps the column to a nearly
normal scale, `model` maps all columns of a table, and `described` explains the result in words.
"""
