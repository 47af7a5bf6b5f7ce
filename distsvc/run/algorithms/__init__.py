"""Algorithms of jobs, one module each."""

from __future__ import annotations

from distsvc.errors import DataError
from distsvc.models.rules.joined import joined_form
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.algorithms.automatic import Automatic
from distsvc.run.algorithms.boundary import BoundaryModel
from distsvc.run.algorithms.hyperplanes import Hyperplanes
from distsvc.run.algorithms.level_tree import LevelTrees
from distsvc.run.algorithms.linear import Linear
from distsvc.run.algorithms.mixture import MixtureJob
from distsvc.run.algorithms.sampled import Sampled

ALGORITHMS: tuple[type[AlgorithmJob], ...] = (
    Automatic, LevelTrees, BoundaryModel, Hyperplanes, Linear, MixtureJob, Sampled,
)  # fmt: skip
RULES = {rule.form: rule for algorithm in ALGORITHMS for rule in algorithm.rules}
RULES |= {form.form: form for form in map(joined_form, RULES.values())}
"""The rules of saved models by their forms."""


def rule_named(form: str) -> type[Rule]:
    """Return the class of rules with this form; DataError if there is none."""
    if form not in RULES:
        raise DataError(f"fact algorithm: expected the form of a rule, found {form!r}")
    return RULES[form]
