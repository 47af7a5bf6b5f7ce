"""What a worker does: one function for each mapped phase, of a run's directory and a number.

A task reads small files of the run's directory and its own rows of the table, and writes one file
there, named after the phase and the number. It returns the rows it handled. So a task can be called
by a Dask worker, by a loop, or by hand: ``label_partition("out/.runs/ab12", 3)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from distsvc.models import sampling
from distsvc.models.baselines.rules import RULES
from distsvc.models.hyperplanes.estimator import IncrementalMDH
from distsvc.models.hyperplanes.tree import ClusterTree
from distsvc.models.linear.estimators import LinearRule
from distsvc.models.scaling import ColumnSums
from distsvc.models.support_vector import labelling
from distsvc.models.support_vector.ensemble import Ensemble
from distsvc.models.support_vector.labelling import Boundary, Clusters, DecisionFunction
from distsvc.models.support_vector.level_tree import LevelTree, Voter
from distsvc.run.directory import RunDirectory, task_file
from distsvc.run.reasons import Reasons
from distsvc.run.stream import prepared, sample_blocks
from distsvc.storage.arrays import write_array
from distsvc.storage.outputs import output_format
from distsvc.storage.published import Part, part_file
from distsvc.storage.tables import id_type

CLIMB_ROWS = 512


def survey_partition(run_dir: str, number: int) -> int:
    """Sum up a partition's columns; keep its rows with the lowest keys and those of the sample."""
    run = RunDirectory(run_dir)
    plan = run.plan
    sums = ColumnSums.empty(plan.shift)
    pilot, pilot_keys = np.zeros((0, plan.shift.size)), np.zeros(0, np.uint64)
    sample, n_rows = Sample(run), 0
    for block in plan.blocks(number):
        too_far = sums.add(block.X)
        if too_far:
            raise plan.unusable(block, *too_far)
        n_rows += len(block.rows)
        keys = sampling.row_keys(plan.seed, block.rows)
        sample.add(block.X, keys)
        full = pilot_keys.size == plan.pilot_rows
        low = np.flatnonzero(keys < pilot_keys[-1]) if full else slice(None)
        pilot_keys = np.concatenate([pilot_keys, keys[low]])
        kept = sampling.lowest(pilot_keys, plan.pilot_rows)
        pilot, pilot_keys = np.concatenate([pilot, block.X[low]])[kept], pilot_keys[kept]
    sample.write(number)
    facts = {"n_rows": n_rows, "first": sums.first, "second": sums.second}
    bounds = {"least": sums.least, "most": sums.most, "counts": sums.counts}
    run.write(task_file("survey", number), facts, pilot=pilot, keys=pilot_keys, **bounds)
    return n_rows


def sample_partition(run_dir: str, number: int) -> int:
    """Keep a partition's rows of the sample, where the survey could not know which they are."""
    run = RunDirectory(run_dir)
    sample, n_rows = Sample(run), 0
    for block in run.plan.blocks(number):
        n_rows += len(block.rows)
        sample.add(block.X, sampling.row_keys(run.plan.seed, block.rows))
    sample.write(number)
    return n_rows


class Sample:
    """Collects a partition's rows of the sample, raw, and writes them in the order of keys."""

    def __init__(self, run: RunDirectory):
        facts, _ = run.read("sampling")
        self.run, self.low = run, np.uint64(facts["key_low"])
        self.last = np.uint64(facts["key_high"] - 1)
        self.rows: list[np.ndarray] = []
        self.keys: list[np.ndarray] = []

    def add(self, X: np.ndarray, keys: np.ndarray) -> None:
        """Take what belongs to the sample of a block's rows (n, d) float64 with their keys."""
        chosen = (keys >= self.low) & (keys <= self.last)
        self.rows.append(X[chosen])
        self.keys.append(keys[chosen])

    def write(self, number: int) -> None:
        """Write the partition's part of the sample, block by block to need little memory."""
        keys = np.concatenate([np.zeros(0, np.uint64), *self.keys])
        order = np.argsort(keys)
        place = np.empty(len(keys), np.int64)
        place[order] = np.arange(len(keys))
        X = np.empty((len(keys), self.run.plan.shift.size))
        first = 0
        while self.rows:
            rows = self.rows.pop(0)
            X[place[first : first + len(rows)]] = rows
            first += len(rows)
        folder = self.run.path / task_file("sample", number)
        folder.mkdir(parents=True, exist_ok=True)
        write_array(folder / "X.npy", X)
        write_array(folder / "keys.npy", keys[order])


def learn_tree(run_dir: str, restart: int) -> int:
    """Learn one tree of hyperplanes from the whole sample, in an order of its own."""
    run = RunDirectory(run_dir)
    facts, _ = run.read("restarts")
    model = IncrementalMDH(**facts["parameters"])
    seed, n_parts = model.begin(), len(run.plan.partitions)
    tree, _ = model.grow(
        restart,
        facts["n_rows"],
        lambda epoch, ranges: sample_blocks(run, n_parts, ranges, seed, epoch),
    )
    run.write(task_file("trees", restart), {}, **vars(tree))
    return int(tree.counts.sum()) * model.n_passes(facts["n_rows"])


def grow_level_tree(run_dir: str, number: int) -> int:
    """Train one model on the sample, in an order of its own, and grow its tree of level sets."""
    run = RunDirectory(run_dir)
    plan, facts, view = ensemble(run)
    n_parts, ranges = len(run.plan.partitions), [(low, high) for low, high in facts["ranges"]]

    def blocks(stream: int, some: list[tuple[int, int]]) -> Iterator[np.ndarray]:
        for block in sample_blocks(run, n_parts, some, plan.seed, stream):
            yield plan.view(block)

    tree = vars(plan.grow(number, view, ranges, blocks))
    arrays = {name: value for name, value in tree.items() if isinstance(value, np.ndarray)}
    run.write(task_file("trees", number), {"gamma": tree["gamma"]}, **arrays)
    return plan.steps


def test_splits(run_dir: str, number: int) -> int:
    """Sum up what a partition's rows say of the splits of all trees, each on its share of rows."""
    run = RunDirectory(run_dir)
    plan, facts, _ = ensemble(run)
    trees = level_trees(run, len(plan.members))
    sums = [tree.no_differences() for tree in trees]
    n_rows = 0
    for block in run.plan.blocks(number):
        n_rows += len(block.rows)
        keys = sampling.row_keys(plan.seed, block.rows)
        view = plan.view(prepared(run, block.X))
        for i, tree in enumerate(trees):
            tree.add_differences(view[plan.rows_for(i, keys, facts["n_rows"])], sums[i])
    run.write(task_file("test", number), {}, sums=np.concatenate(sums, axis=1))
    return n_rows


def level_trees(run: RunDirectory, n: int) -> list[LevelTree]:
    """Return the trees of n models, not tested yet."""
    results = run.results("trees", n)
    return [LevelTree(gamma=facts["gamma"], **arrays) for facts, arrays in results]


def ensemble(run: RunDirectory) -> tuple[Ensemble, dict[str, Any], np.ndarray]:
    """Return the plan of the models, facts of the sample, and the pilot's viewed rows."""
    facts, arrays = run.read("ensemble")
    return Ensemble.restored(facts["plan"], arrays["components"]), facts, arrays["view"]


def find_boundary(run_dir: str, number: int) -> int:
    """Collect a partition's rows of the extended boundary."""
    run = RunDirectory(run_dir)
    f, facts = decision(run)
    limit = facts["boundary_size"]
    boundary, n_rows = Boundary.empty(f), 0
    for block in run.plan.blocks(number):
        n_rows += len(block.rows)
        keys = sampling.row_keys(run.plan.seed, block.rows)
        found = Boundary.collect(f, prepared(run, block.X), keys, facts["epsilon"], limit)
        boundary = boundary.merge(found, limit)
    arrays = {field.name: getattr(boundary, field.name) for field in fields(boundary)}
    run.write(task_file("boundary", number), {}, **arrays)
    return n_rows


def climb_from_boundary(run_dir: str, number: int) -> int:
    """Climb from the merged boundary's rows number [512 n, 512 (n + 1))."""
    run = RunDirectory(run_dir)
    starts = run.read("boundary")[1]["X"][number * CLIMB_ROWS : (number + 1) * CLIMB_ROWS]
    run.write(task_file("climb", number), {}, ends=labelling.climb(decision(run)[0], starts))
    return len(starts)


def climb_tasks(n_starts: int) -> int:
    """Return the number of tasks that `climb_from_boundary` divides the starts into."""
    return math.ceil(n_starts / CLIMB_ROWS)


def join_vertices(run_dir: str, number: int) -> int:
    """Find the connected pairs in one block of the pairs of equilibria and support vectors."""
    run = RunDirectory(run_dir)
    f, facts = decision(run)
    vertices = run.read("vertices")[1]["vertices"]
    pairs = labelling.connected_pairs(f, vertices, number, facts["segment_samples"])
    run.write(task_file("segments", number), {}, pairs=pairs)
    return 0


def label_partition(run_dir: str, number: int) -> int:
    """Write a partition's labels, scores and outlier flags, and count what the report tells."""
    run = RunDirectory(run_dir)
    facts, arrays = run.read("labelling")
    edges, n_clusters = arrays["score_edges"], facts["n_clusters"]
    label_rows, why = labeller(run), reasons_of(run)
    plan = run.plan
    names = ["label", "score", "outlier", *(["reasons"] if why and why.count else [])]
    part = Part(plan.table.id or "row", id_type(plan.table), names)
    sizes = np.zeros((n_clusters, 2), np.int64)
    histogram = np.zeros(edges.size - 1, np.int64)
    classes: dict[str, np.ndarray] = {}
    columns = {"with_ids": plan.table.id is not None, "with_labels": plan.table.label is not None}
    for block in plan.blocks(number, **columns):
        Z = prepared(run, block.X)
        label, score = label_rows(Z)
        outlier = score < 0.0
        reasons = why.add(block.rows, block.X, Z, score) if why else None
        found: dict[str, Any] = {"label": label, "score": score, "outlier": outlier}
        found |= {"reasons": reasons} if "reasons" in names else {}
        part.add(block.rows if block.ids is None else block.ids, found)
        both = np.bincount(2 * label + outlier, minlength=2 * n_clusters)
        sizes += both.reshape(-1, 2)
        histogram += np.histogram(np.clip(score, edges[0], edges[-1]), edges)[0]
        if block.labels is not None:
            _count_classes(classes, block.labels, label, n_clusters)
    path = run.path / part_file(number)
    path.parent.mkdir(exist_ok=True)
    written = part.write(path)
    counts = np.array(list(classes.values()), np.int64).reshape(-1, n_clusters)
    run.write(
        task_file("labelled", number),
        {"part": written, "classes": list(classes), "farthest": why.farthest if why else []},
        sizes=sizes,
        histogram=histogram,
        classes=counts,
        leading=why.leading if why else np.zeros(0, np.int64),
    )
    return part.n_rows


def fill_output(run_dir: str, number: int) -> int:
    """Do one of the tasks that make another format of the Parquet parts."""
    run = RunDirectory(run_dir)
    facts, _ = run.read("parts")
    output_format(facts["format"]).fill(run.path, facts["parts"], number)
    return 0


def decision(run: RunDirectory) -> tuple[DecisionFunction, dict[str, Any]]:
    """Return the trained decision function and the numbers of phase two."""
    facts, arrays = run.read("decision")
    return DecisionFunction(arrays["S"], arrays["a"], facts["gamma"]), facts


def labeller(run: RunDirectory) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return the model as a function of prepared rows: labels and scores, negative for outliers."""
    facts, _ = run.read("labelling")
    if facts["algorithm"] == "imdh":
        cut = ClusterTree(**run.read("tree")[1]).cut(facts["n_clusters"])
        return cut.label
    if facts["algorithm"] in RULES:
        return RULES[facts["algorithm"]](**run.read("rule")[1]).label
    if facts["algorithm"] == "level-tree":
        facts, arrays = run.read("levels")
        gamma, level, nearest = facts["gamma"], facts["level"], facts["nearest"]
        return Voter(**arrays, gamma=gamma, level=level, nearest=nearest)
    if facts["algorithm"].startswith("linear-"):
        rule = linear_rule(run)
        return lambda Z: (
            np.zeros(len(Z), np.int32),
            (rule.scores(Z) - rule.offset).astype(np.float32),
        )
    f, _ = decision(run)
    _, arrays = run.read("clusters")
    clusters = Clusters(arrays["points"], arrays["cluster"], facts["n_clusters"])
    nearest = clusters.labeller()
    return lambda X: labelling.label_rows(f, clusters, nearest, X)


def linear_rule(run: RunDirectory) -> LinearRule:
    """Return the trained linear model."""
    facts, arrays = run.read("linear")
    return LinearRule(arrays["weights"], facts["offset"], facts["ball"])


def reasons_of(run: RunDirectory) -> Reasons | None:
    """Return what collects the reasons of outliers, where the model is linear."""
    if not run.read("labelling")[0]["algorithm"].startswith("linear-"):
        return None
    facts, arrays = run.read("linear")
    return Reasons(linear_rule(run), arrays["mean"], run.plan.table.columns, facts["reasons"])


def _count_classes(
    classes: dict[str, np.ndarray], found: object, label: np.ndarray, n_clusters: int
) -> None:
    """Add the rows of a block to the table of classes (as text) by cluster."""
    encoded = found.dictionary_encode()  # type: ignore[attr-defined]
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    names = [str(value) for value in encoded.dictionary.to_pylist()] + ["null"]
    table = np.bincount(codes * n_clusters + label, minlength=len(names) * n_clusters)
    for name, counts in zip(names, table.reshape(-1, n_clusters), strict=True):
        if counts.any():
            classes[name] = classes.get(name, 0) + counts
