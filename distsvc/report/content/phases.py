"""Titles of a run's phases, in its log and on its page."""

from __future__ import annotations

PHASES = {
    "open": "Open the table",
    "cluster": "Connect to workers",
    "survey": "Read the table",
    "survey-again": "Read the table without extreme rows",
    "far-rows": "Find extreme rows",
    "sample": "Draw the sample",
    "gather": "Gather the sample",
    "prepare": "Prepare rows",
    "scale": "Measure the columns of the sample",
    "learn": "Train models",
    "learn-graph": "Train models of the graph",
    "learn-graph-others": "Train more models of the graph",
    "views": "Project the table for the models",
    "gather-views": "Gather the projected table",
    "vote": "Vote on the clusters",
    "graph": "Find near rows",
    "choose": "Choose the answer",
    "train": "Train the model",
    "descend": "Solve the linear model",
    "prune": "Prune the tree",
    "boundary": "Find the boundary",
    "climb": "Climb to equilibria",
    "equilibria": "Gather equilibria",
    "segments": "Test segments",
    "clusters": "Join equilibria",
    "label": "Label the rows",
    "assign": "Label the rows with the earlier model",
    "fill": "Write the arrays of labels",
    "match": "Match clusters with the earlier run",
    "moves": "List the ids that moved",
    "report": "Draw the page",
    "publish": "Publish",
}
"""Titles of phases; other phases, such as ``pass-03``, are shown by their names."""


def phase_title(name: str) -> str:
    """Return the title of a phase, or else its name."""
    return PHASES.get(name, name)
