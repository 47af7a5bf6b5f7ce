"""iMDH: every tree of hyperplanes is a task that streams the sample; the best tree is pruned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distsvc.config import Job
from distsvc.models.hyperplanes.engine import TreeEngine
from distsvc.models.hyperplanes.estimator import IncrementalMDH
from distsvc.models.hyperplanes.rule import TreeRule
from distsvc.models.hyperplanes.tree import GrowingTree, valley
from distsvc.models.rules import Rule
from distsvc.parameters import check_parameters
from distsvc.run.directory import Result, RunDirectory
from distsvc.run.phases import Phase, Steps
from distsvc.run.room import Room, Rows, Tally
from distsvc.run.stream import sample_blocks
from distsvc.run.survey import Survey
from distsvc.storage.tables import Table

LEARNERS = "learners"
SHOWN_IN_NODE = 300
DENSITY_POINTS = 81
HEAVIEST = 5
IN_RULES = 3


class Hyperplanes(Room):
    """Restarts from other orders of the rows; the one that agrees most with the others is kept."""

    rules = (TreeRule,)
    engine: TreeEngine

    def __init__(self, parameters: dict[str, Any], seed: int):
        self.parameters, self.engine = parameters, TreeEngine(parameters, seed)

    @classmethod
    def begin(cls, job: Job, table: Table) -> Hyperplanes | None:
        """Return the room of a job for iMDH."""
        if job.model.algorithm != "imdh":
            return None
        parameters = IncrementalMDH(**job.model.parameters()).get_params()
        check_parameters(job.model.algorithm, parameters)
        return cls(parameters, job.model.seed)

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Learn the trees and prune the best."""
        steps.run.write(LEARNERS, Result({"parameters": self.parameters, "n_rows": survey.n_rows}))
        trees = steps.map(LEARN, self.parameters["n_init"])
        with steps.progress.phase("prune"):
            self.engine.choose([GrowingTree(**result.arrays) for result in trees])
        return self.engine.rule

    def parts(self, run: RunDirectory, rows: Rows, tally: Tally | None) -> dict[str, Any]:
        """Return the tree of splits."""
        return {"tree": tree_part(self.engine, run.plan.table.columns, rows)}


def learn(run: RunDirectory, restart: int) -> Result:
    """Learn one tree of hyperplanes from the whole sample, in an order of its own."""
    facts = run.read(LEARNERS).facts
    engine, n_rows = TreeEngine(facts["parameters"], run.plan.seed), facts["n_rows"]
    tree, _ = engine.grow(
        restart, n_rows, lambda epoch, ranges: sample_blocks(run, ranges, engine.seed, epoch)
    )
    rows = int(tree.counts.sum()) * engine.n_passes(n_rows)
    return Result(arrays=vars(tree), rows=rows)


LEARN = Phase("learn", learn)


def tree_part(engine: TreeEngine, columns: Sequence[str], rows: Rows) -> dict[str, Any]:
    """Return the pruned tree to draw, the curve of sums of squares and every cluster's rule."""
    cut, grown = engine.cut, engine.cluster_tree
    total, n_rows = float(grown.sums_of_squares[0]), float(grown.counts[0])
    nodes: dict[int, dict[str, Any]] = {0: {"id": int(grown.ids[0]), "parent": None}}
    conditions: dict[int, list[str]] = {0: []}
    for rank, (j, places, positions) in enumerate(cut.projections(rows.X), start=1):
        below, above = map(int, cut.children[j])
        weights = grown.V[j]
        heavy = np.argsort(-np.abs(weights), kind="stable")[:HEAVIEST]
        heavy = heavy[weights[heavy] != 0.0]
        gain = grown.sums_of_squares[j] - grown.sums_of_squares[[below, above]].sum()
        in_units = positions / grown.spreads[j]
        nodes[j] |= {
            "below": int(grown.ids[below]),
            "above": int(grown.ids[above]),
            "rank": rank,
            "gain": float(gain) / total if total > 0.0 else 0.0,
            "valley": valley(positions)[1],
            "direction": [
                {"column": columns[k], "weight": round(float(weights[k]), 4)} for k in heavy
            ],
            "others": int(np.count_nonzero(weights)) - len(heavy),
            "split": 0.0,
            "density": _density(in_units),
            "sample": {
                "x": _rounded(in_units[:SHOWN_IN_NODE]),
                "label": rows.labels[places[:SHOWN_IN_NODE]].tolist(),
            },
        }
        threshold = grown.thresholds[j] + float(weights.astype(np.float64) @ engine.centre)
        for child, sign in ((below, "<"), (above, "≥")):
            nodes[child] = {"id": int(grown.ids[child]), "parent": int(grown.ids[j])}
            text = _combination(weights, heavy[:IN_RULES], columns)
            conditions[child] = [*conditions[j], f"{text} {sign} {_number(threshold)}"]
    for j, node in nodes.items():
        node |= {"rows": round(float(grown.counts[j])), "share": float(grown.counts[j] / n_rows)}
        if cut.labels[j] >= 0:
            node["label"] = int(cut.labels[j])
    leaves = sorted((j for j in nodes if cut.labels[j] >= 0), key=lambda j: cut.labels[j])
    share = grown.curve / total if total > 0.0 else np.ones_like(grown.curve)
    return {
        "nodes": list(nodes.values()),
        "curve": {
            "clusters": list(range(1, grown.n_leaves + 1)),
            "share": _rounded(share),
            "chosen": cut.n_clusters,
            "by": _chosen_by(engine),
        },
        "rules": [{"label": int(cut.labels[j]), "conditions": conditions[j]} for j in leaves],
    }


def _chosen_by(engine: TreeEngine) -> str:
    if engine.parameters["n_clusters"] is not None:
        return "n_clusters"
    return "for want of a valley of the density" if engine.cut.n_clusters == 1 else "elbow"


def _density(x: np.ndarray) -> dict[str, list[float]]:
    """Return a kernel estimate of the density of x (n,), by Scott's rule, but for the tails."""
    if len(x) < 2 or x.std() == 0.0:
        return {"x": [], "y": []}
    width = 1.06 * x.std() * len(x) ** -0.2
    low, high = np.quantile(x, [0.002, 0.998])
    low, high = min(low, 0.0) - 2.0 * width, max(high, 0.0) + 2.0 * width
    at = np.linspace(low, high, DENSITY_POINTS)
    kernels = np.exp(-0.5 * ((at[:, None] - x) / width) ** 2)
    return {"x": _rounded(at), "y": _rounded(kernels.sum(axis=1) / (len(x) * width * 2.5066283))}


def _combination(weights: np.ndarray, heavy: np.ndarray, columns: Sequence[str]) -> str:
    """Write the heaviest terms of a linear combination: "0.81 f3 − 0.42 f7 + …"."""
    terms: list[str] = []
    for k in heavy:
        sign = "−" if weights[k] < 0.0 else "+"
        lead = sign if terms or sign == "−" else ""
        gap = " " if terms else ""
        terms.append(f"{lead}{gap}{abs(float(weights[k])):.2g} {columns[k]}")
    if np.count_nonzero(weights) > len(heavy):
        terms.append("+ …")
    return " ".join(terms)


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(v), 6) for v in values]
