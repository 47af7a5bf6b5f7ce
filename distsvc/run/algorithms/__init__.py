"""The algorithms of a job, each in a room of its own."""

from __future__ import annotations

from distsvc.errors import DataError
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import Room
from distsvc.run.algorithms.automatic import Automatic
from distsvc.run.algorithms.boundary import BoundaryModel
from distsvc.run.algorithms.hyperplanes import Hyperplanes
from distsvc.run.algorithms.level_tree import LevelTrees
from distsvc.run.algorithms.linear import Linear
from distsvc.run.algorithms.sampled import Sampled

ROOMS: tuple[type[Room], ...] = (
    Automatic, LevelTrees, BoundaryModel, Hyperplanes, Linear, Sampled,
)  # fmt: skip


def rule_named(form: str) -> type[Rule]:
    """Return the rule of that form; `DataError` where there is none."""
    for room in ROOMS:
        for rule in room.rules:
            if rule.form == form:
                return rule
    raise DataError(f"fact algorithm: expected the form of a rule, found {form!r}")
