"""Models of columns: they turn stored values into numbers without gaps that mean nothing.

Rounding, flags, categories and many zeros leave empty gaps, which would look like the valleys
between clusters. `density` describes one column of numbers, `maps` maps it to a nearly normal
scale, `model` does so for all columns of a table, and `described` explains the result in words.
"""
