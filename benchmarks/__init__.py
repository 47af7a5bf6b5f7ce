"""Measurements of distsvc, alone and side by side with others; `python -m benchmarks --help`.

One module answers one question. They report figures, with the bar beside a figure that has one, and
never pass or fail.
"""
