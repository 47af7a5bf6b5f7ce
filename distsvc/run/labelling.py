"""Every row's label: one reading of the table, a file for each partition, and what they count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.config import Job
from distsvc.errors import DataError, JobFileError
from distsvc.models.rules import Rule
from distsvc.run.algorithms import room_of, rule_named
from distsvc.run.directory import Result, RunDirectory
from distsvc.run.phases import Phase, Steps
from distsvc.run.preparation import prepared_block
from distsvc.run.room import Columns, Room, Tally
from distsvc.storage.outputs import output_format
from distsvc.storage.place import Place
from distsvc.storage.published import COLUMNS, Part, part_file
from distsvc.storage.tables import Table, id_type

HISTOGRAM_BINS = 60
RULE = "rule"
ROW = COLUMNS[0].name


def write_rule(run: RunDirectory, rule: Rule, pilot: np.ndarray) -> None:
    """Write the rule that labels the table.

    The edges of the score histogram are those of the scores of the prepared pilot (m, d); the
    outermost bins take the rest.
    """
    scores = rule.unrounded_scores(pilot)
    low, high = (float(scores.min()), float(scores.max())) if np.isfinite(scores).all() else (0, 1)
    if high == low:
        low, high = low - 1.0, high + 1.0
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
    facts = rule.facts() | {"algorithm": rule.form, "n_clusters": rule.n_clusters}
    run.write(RULE, Result(facts, rule.arrays() | {"score_edges": edges}))


def read_rule(run: RunDirectory) -> Rule:
    """Return the rule that labels the table; `DataError` where what is saved of it is damaged."""
    found = run.read(RULE)
    try:
        return rule_named(found.facts.get("algorithm", "")).restored(found.facts, found.arrays)
    except DataError as error:
        raise DataError(f"{run.address}: result {RULE}: {error}") from None


def tally_of(run: RunDirectory, rule: Rule) -> Tally | None:
    """Return an empty tally of what the rule's algorithm counts besides, if it does."""
    return room_of(type(rule)).tally(rule, run.plan.table.columns, run.plan.reasons)


def published_names(rule: type[Rule], reasons: int) -> list[str]:
    """Return the columns that are published besides the row: the rule's, and its tally's."""
    return [*rule.meanings, *room_of(rule).tally_columns(reasons)]


def check_output(job: Job, table: Table, room: Room) -> None:
    """Check, before anything is computed, that the output's format can hold what is published."""
    names = published_names(room.rules[0], job.output.reasons)
    if table.id in names:
        raise JobFileError(
            f"input.id = {table.id!r} is the name of a published column besides "
            f"({', '.join(names)}); rename it in the table, or leave input.id out"
        )
    output_format(job.output.format).check(table.id or ROW, id_type(table), names)


@dataclass
class Counts:
    """What all algorithms count while rows are labelled.

    Attributes
    ----------
    sizes : ndarray of shape (k, 2), int64
        Rows of each cluster inside and outside.
    histogram : ndarray of shape (HISTOGRAM_BINS,), int64
        Rows by score.
    classes : dict of str to ndarray of shape (k,)
        Rows of each known class by cluster.
    parts : list of dict
        What the manifest says of each file.

    """

    sizes: np.ndarray
    histogram: np.ndarray
    classes: dict[str, np.ndarray] = field(default_factory=dict)
    parts: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def empty(cls, n_clusters: int) -> Counts:
        """Return the counts of no rows."""
        return cls(np.zeros((n_clusters, 2), np.int64), np.zeros(HISTOGRAM_BINS, np.int64))

    @property
    def n_rows(self) -> int:
        """Rows labelled."""
        return int(self.sizes.sum())

    def add(self, columns: Columns, edges: np.ndarray, classes: pa.Array | None) -> None:
        """Count a block's rows by their published columns and, where known, their classes (n,)."""
        label, score, k = columns["label"], columns["score"], len(self.sizes)
        both = np.bincount(2 * label + columns["outlier"], minlength=2 * k)
        self.sizes += both.reshape(-1, 2)
        self.histogram += np.histogram(np.clip(score, edges[0], edges[-1]), edges)[0]
        if classes is not None:
            _add_up(self.classes, _by_class(classes, label, k))

    def result(self, part: dict[str, Any], more: Result) -> Result:
        """Return the counts of one partition, its file, and what its tally counted."""
        classes = np.array(list(self.classes.values()), np.int64).reshape(-1, len(self.sizes))
        arrays = {"sizes": self.sizes, "histogram": self.histogram, "classes": classes}
        facts = {"part": part, "classes": list(self.classes)}
        return Result(facts | more.facts, arrays | more.arrays, rows=self.n_rows)

    def merge(self, other: Result, file: str) -> None:
        """Take in the counts of a partition, whose labels are in `file`."""
        self.sizes += other.arrays["sizes"]
        self.histogram += other.arrays["histogram"]
        names = other.facts["classes"]
        _add_up(self.classes, dict(zip(names, other.arrays["classes"], strict=True)))
        self.parts.append({"file": file, **other.facts["part"]})


@dataclass(frozen=True)
class Labelled:
    """What labelling a table counted: for all algorithms, and for its own."""

    counts: Counts
    tally: Tally | None


def label_table(steps: Steps) -> Labelled:
    """Write every row's label, score and outlier flag, and add up what the report tells."""
    run, rule = steps.run, read_rule(steps.run)
    output = output_format(run.plan.output_format)
    counts, tally = Counts.empty(rule.n_clusters), tally_of(run, rule)
    _forget_lost_parts(run)
    for number, result in enumerate(steps.map(LABEL)):
        counts.merge(result, part_file(number))
        if tally is not None:
            tally.merge(result)
    parts = [(part["file"], part["rows"]) for part in counts.parts]
    n = output.begin(run.place("labels"), parts_place(run), parts)
    if n:
        run.write("parts", Result({"parts": parts}))
        steps.do(FILL, n)
    return Labelled(counts, tally)


def _forget_lost_parts(run: RunDirectory) -> None:
    """Remove the results of an earlier start whose parts are not as they were written.

    A machine that lost its power may have written the one and not the other.
    """
    names = run.names(LABEL.name)
    there = parts_place(run).sizes() if names else {}
    for name in names:
        part = run.load(name).facts["part"]
        if there.get(part_file(int(name.rpartition("/")[2]))) != part["bytes"]:
            run.remove(name)


def parts_place(run: RunDirectory) -> Place:
    """Return the place of the parts, which is one of the run's work if they are not published."""
    if output_format(run.plan.output_format).publishes_parts:
        return run.place("labels")
    return run.work.below("parts")


def label_partition(run: RunDirectory, number: int) -> Result:
    """Write a partition's labels, scores and outlier flags, and count what the report tells."""
    plan, rule = run.plan, read_rule(run)
    edges, tally = run.read(RULE).arrays["score_edges"], tally_of(run, rule)
    names = published_names(type(rule), plan.reasons)
    part = Part(plan.table.id or ROW, id_type(plan.table), names)
    counts = Counts.empty(rule.n_clusters)
    wanted = {"with_ids": plan.table.id is not None, "with_labels": plan.table.label is not None}
    for block in plan.blocks(number, **wanted):
        Z = prepared_block(run, block)
        columns: Columns = dict(rule.label(Z))
        if tally is not None:
            columns |= tally.add(block, Z, columns)
        part.add(block.rows if block.ids is None else block.ids, columns)
        counts.add(columns, edges, block.labels)
    with parts_place(run).created(part_file(number), again=False) as path:
        written = part.write(path)
    return counts.result(written, tally.result() if tally is not None else Result())


def fill_output(run: RunDirectory, number: int) -> Result:
    """Write one piece of an output that is made from the Parquet parts."""
    parts = [(name, rows) for name, rows in run.read("parts").facts["parts"]]
    output = output_format(run.plan.output_format)
    output.fill(run.place("labels"), parts_place(run), parts, number)
    return Result()


LABEL = Phase("label", label_partition)
FILL = Phase("fill", fill_output)


def _add_up(totals: dict[str, np.ndarray], counts: dict[str, np.ndarray]) -> None:
    for name, rows in counts.items():
        totals[name] = totals.get(name, 0) + rows


def _by_class(classes: pa.Array, label: np.ndarray, n_clusters: int) -> dict[str, np.ndarray]:
    """Return the rows of each class (as text) by cluster."""
    encoded = classes.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    names = [str(value) for value in encoded.dictionary.to_pylist()] + ["null"]
    table = np.bincount(codes * n_clusters + label, minlength=len(names) * n_clusters)
    by_class = zip(names, table.reshape(-1, n_clusters), strict=True)
    return {name: counts for name, counts in by_class if counts.any()}
