"""iMDH (incremental minimum density hyperplanes): trees that split rows at valleys of the density.

1. ``scale``, a phase: if the sample is larger than the pilot, a task measures the standard
   deviations of the sample's columns.
2. ``learn``, a phase: each tree is a task, which streams the sample in its own order.
3. The driver prunes the trees, and selects the tree that agrees most with the others.
4. The report draws the selected tree's splits and lists every cluster's conditions.

In code, a node is an index into the rule's arrays, where parents precede their children. The page
shows the paper's numbers, `TreeRule.numbers`: the root is 1, the children of i are 2 i and 2 i + 1.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from distsvc.job.config import Job
from distsvc.job.parameters import Given, check_parameters
from distsvc.models.hyperplanes.engine import TreeEngine
from distsvc.models.hyperplanes.tree import GrowingTree, TreeRule, valley
from distsvc.models.rows.checkpoints import Checkpoint
from distsvc.models.rules.rule import Rule
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.model_parts import (
    ClusterRule,
    Curve,
    Density,
    LeafNode,
    NodeSample,
    SplitNode,
    Term,
    TreePart,
)
from distsvc.run.algorithms.algorithm import AlgorithmJob, Parts, PilotRows, rounded, sample_rows
from distsvc.run.learning.preparation import Preparation
from distsvc.run.learning.stream import Memory, Sizes, cached_blocks, cached_blocks_memory
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.storage.rows.blocks import Table

LEARNERS, SCALE = "learners", "tree-scale"


class Hyperplanes(AlgorithmJob):
    """iMDH as a job: learns trees from several orders of the rows, and selects one of them."""

    rules = (TreeRule,)
    engine: TreeEngine

    def __init__(self, parameters: Given, job: Job, table: Table):
        check_parameters(job.model.algorithm, parameters)
        super().__init__(parameters, TreeEngine(parameters, job.model.seed))
        self.engine.set_width(len(table.columns))

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        engine, n_rows = self.engine, survey.n_rows
        steps.run.write(LEARNERS, Result({"parameters": self.parameters, "n_rows": n_rows}))
        deviations = None
        if engine.needs_deviations:
            (found,) = steps.map(FIND_SCALE, 1)
            deviations = found.arrays["deviations"]
        engine.set_scale(deviations)
        scale = {} if engine.scale is None else {"scale": engine.scale}
        steps.run.write(SCALE, Result(arrays=scale))
        learnt = steps.map(LEARN_TREES, engine.n_restarts(n_rows))
        trees = [GrowingTree(**result.arrays) for result in learnt]
        with steps.progress.phase("prune"):
            self.engine.choose(trees)
        return self.engine.rule

    def parts(self, run: RunDirectory, pilot: PilotRows) -> Parts:
        rows = pilot.X, pilot.labels
        return Parts(
            tree=tree_part(self.engine, run.plan.table.columns, *rows, Preparation.read(run))
        )

    def work(self, n_rows: int) -> dict[str, float]:
        # Rows of a tree, summed over its passes.
        rows = sample_rows(self, n_rows)
        learned = float((self.engine.n_passes(n_rows) + 1) * rows)
        return {FIND_SCALE.name: float(rows), LEARN_TREES.name: learned}

    def memory(self, sizes: Sizes) -> Memory:
        tree = 2 ** self.parameters["depth"] * (2 * sizes.row_bytes + 64)
        trees = {"trees of hyperplanes": 3.0 * self.engine.n_restarts(sizes.n_rows) * tree}
        rows = sample_rows(self, sizes.n_rows)
        stream = cached_blocks_memory(sizes, rows)
        return Memory(driver=trees, worker=stream | {"a tree": 2.0 * tree})


def find_scale(run: RunDirectory, number: int) -> Result:
    """Return the standard deviations (d,) of the sample's columns."""
    engine, n_rows = _engine(run)
    blocks = cached_blocks(run, engine.key_ranges(n_rows), engine.seed)
    return Result(arrays={"deviations": engine.deviations(n_rows, blocks)}, rows=n_rows)


FIND_SCALE = Phase("scale", find_scale)


def _engine(run: RunDirectory) -> tuple[TreeEngine, int]:
    facts = run.read(LEARNERS).facts
    engine = TreeEngine(facts["parameters"], run.plan.seed)
    engine.set_width(len(run.plan.table.columns))
    return engine, facts["n_rows"]


def learn(run: RunDirectory, restart: int, checkpoint: Checkpoint) -> Result:
    """Learn one tree from the whole sample; the order of the rows depends on `restart`."""
    engine, n_rows = _engine(run)
    engine.scale = run.read(SCALE).arrays.get("scale")
    blocks = cached_blocks(run, engine.key_ranges(n_rows), engine.seed)
    tree = engine.grow(restart, n_rows, blocks, checkpoint)
    rows = int(tree.counts.sum()) * engine.n_passes(n_rows)
    return Result(arrays=vars(tree), rows=rows)


LEARN_TREES = Phase("learn", learn, sequential=True)
"""Phase that learns the trees, one in each task; a task resumes from its checkpoint."""


def tree_part(
    engine: TreeEngine,
    columns: Sequence[str],
    Z: np.ndarray,
    labels: np.ndarray,
    preparation: Preparation | None = None,
) -> TreePart:
    """Return the report's description of the tree: its nodes, curve and conditions.

    With a `preparation`, conditions are also given in raw units.
    """
    tree = engine.rule
    total = float(tree.sums_of_squares[0])
    parents: dict[int, int | None] = {0: None}
    conditions: dict[int, list[str]] = {0: []}
    whole: dict[int, list[str]] = {0: []}
    nodes: dict[int, SplitNode | LeafNode] = {}
    # Each split has its rows, and their signed distances from the hyperplane. Parents come first.
    for rank, (node, rows, distances) in enumerate(tree.projections(Z), start=1):
        nodes[node] = _split(engine, node, parents[node], rank, columns, distances, labels[rows])
        weights = tree.V[node]
        threshold = tree.thresholds[node] + float(weights.astype(np.float64) @ engine.centre)
        text = _combination(weights, _heaviest(weights)[:3], columns)
        limit = _exact(threshold, 3)
        for child, sign in zip(map(int, tree.children[node]), ("<", "≥"), strict=True):
            parents[child] = int(tree.numbers[node])
            conditions[child] = [*conditions[node], f"{text} {sign} {limit}"]
            if preparation is not None:
                told = _in_units(weights, float(tree.thresholds[node]), columns, preparation, sign)
                whole[child] = [*whole[node], told]
    labelled = (node for node in parents if tree.clusters[node] >= 0)
    leaves = sorted(labelled, key=lambda node: tree.clusters[node])
    for node in leaves:
        nodes[node] = LeafNode(**_node(tree, node, parents[node]), label=int(tree.clusters[node]))
    chosen_by = "agreement" if engine.lowered else "elbow"
    if engine.parameters["n_clusters"] is not None:
        chosen_by = "n_clusters"
    elif tree.n_clusters == 1:
        chosen_by = "the lack of a density valley"
    share = tree.curve / total if total > 0.0 else np.ones_like(tree.curve)
    return TreePart(
        nodes=[nodes[node] for node in parents],
        curve=Curve(
            clusters=list(range(1, tree.n_leaves + 1)),
            share=rounded(share),
            chosen=tree.n_clusters,
            by=chosen_by,
        ),
        rules=[
            ClusterRule(
                label=int(tree.clusters[node]),
                conditions=conditions[node],
                whole=whole.get(node, []),
            )
            for node in leaves
        ],
    )


def _split(
    engine: TreeEngine,
    node: int,
    parent: int | None,
    rank: int,
    columns: Sequence[str],
    distances: np.ndarray,
    labels: np.ndarray,
) -> SplitNode:
    """Return the report's description of an inner node.

    `distances` (n,) are signed distances of the node's rows from its hyperplane. `labels` (n,) are
    the labels of these rows.
    """
    tree, weights = engine.rule, engine.rule.V[node]
    below, above = map(int, tree.children[node])
    squares, total = tree.sums_of_squares, float(tree.sums_of_squares[0])
    gain, heavy = squares[node] - squares[[below, above]].sum(), _heaviest(weights)
    standardised = distances / tree.spreads[node]  # in standard deviations along the normal
    n_shown = PAGE_LIMITS.node_rows
    x, label = rounded(standardised[:n_shown]), labels[:n_shown].tolist()
    _, relative_height = valley(distances)
    return SplitNode(
        **_node(tree, node, parent),
        below=int(tree.numbers[below]),
        above=int(tree.numbers[above]),
        rank=rank,
        gain=float(gain) / total if total > 0.0 else 0.0,
        valley=float(relative_height),
        direction=[Term(column=columns[k], weight=round(float(weights[k]), 4)) for k in heavy],
        others=int(np.count_nonzero(weights)) - len(heavy),
        split=0.0,
        density=_density(standardised),
        sample=NodeSample(x=x, label=label),
    )


def _node(tree: TreeRule, node: int, parent: int | None) -> dict[str, Any]:
    rows, share = round(float(tree.counts[node])), float(tree.counts[node] / float(tree.counts[0]))
    return {"id": int(tree.numbers[node]), "parent": parent, "rows": rows, "share": share}


def _heaviest(weights: np.ndarray, most: int = 5) -> np.ndarray:
    """Return the indices of at most `most` nonzero weights, the largest absolute values first."""
    heavy = np.argsort(-np.abs(weights), kind="stable")[:most]
    return heavy[weights[heavy] != 0.0]


def _density(x: np.ndarray) -> Density:
    """Return a kernel density estimate of x (n,) by Scott's rule, between outer quantiles of x."""
    if len(x) < 2 or x.std() == 0.0:
        return Density(x=[], y=[])
    width = 1.06 * x.std() * len(x) ** -0.2
    low, high = np.quantile(x, [0.002, 0.998])
    low, high = min(low, 0.0) - 2.0 * width, max(high, 0.0) + 2.0 * width
    at = np.linspace(low, high, 81)
    kernels = np.exp(-0.5 * ((at[:, None] - x) / width) ** 2)
    heights = kernels.sum(axis=1) / (len(x) * width * 2.5066283)
    return Density(x=rounded(at), y=rounded(heights))


def _terms(factors: np.ndarray, names: Iterable[str], digits: int) -> list[str]:
    """Return the terms of a sum: "− 0.42 f7"."""
    pairs = zip(factors, names, strict=True)
    return [
        f"{'−' if f < 0.0 else '+'} {_exact(abs(float(f)), digits)} {name}" for f, name in pairs
    ]


def _combination(weights: np.ndarray, heavy: np.ndarray, columns: Sequence[str]) -> str:
    """Return the heaviest terms of a linear combination: "0.81 f3 − 0.42 f7 + …"."""
    terms = _terms(weights[heavy], (columns[k] for k in heavy), 2)
    terms += ["+ …"] if np.count_nonzero(weights) > len(heavy) else []
    text = " ".join(terms).removeprefix("+ ")
    return text.replace("− ", "−", 1) if text.startswith("−") else text


def _in_units(
    weights: np.ndarray,
    threshold: float,
    columns: Sequence[str],
    preparation: Preparation,
    sign: str,
) -> str:
    """Return the condition weights.z < threshold (or >=) in the units of raw rows, as text."""
    # The heaviest column has the factor 1. With ``unit`` scaling, the limit is a multiple of the
    # row's length. The condition is wrong for values that ``robust`` scaling compresses.
    scaling, w = preparation.scaling, weights.astype(np.float64)
    unit = scaling.kind == "unit"
    heavy = _heaviest(w, PAGE_LIMITS.terms)
    factors = w if unit else w / scaling.scale
    limit = threshold + float(w @ preparation.origin)
    limit += 0.0 if unit else float(factors @ scaling.centre)
    first = factors[heavy[0]]
    if first < 0.0:
        sign = {"<": ">", "≥": "≤"}[sign]
    rest = heavy[1:]
    terms = [columns[heavy[0]], *_terms(factors[rest] / first, (columns[k] for k in rest), 5)]
    left_out = np.count_nonzero(w) - len(heavy)
    if left_out:
        terms.append(f"+ … ({left_out} more)")
    length = " × length of the row" if unit else ""
    return f"{' '.join(terms)} {sign} {_exact(limit / first)}{length}"


def _exact(value: float, digits: int = 5) -> str:
    """Return a number as text with at most `digits` significant digits, and a typographic minus."""
    return f"{value:.{digits}g}".replace("-", "−")
