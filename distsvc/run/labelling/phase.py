"""The label pass: one reading of the table, a file of labels for each part, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from distsvc.errors import TemporaryError
from distsvc.models.rows import sampling
from distsvc.run.algorithms.algorithm import Columns
from distsvc.run.labelling.columns import (
    Entry,
    LabelledParts,
    OptionalColumns,
    check_optional,
    optional_columns,
    part_files,
    parts_place,
)
from distsvc.run.labelling.counts import ClusterContents, Counts, IdCounts, IdReport, counts_ids
from distsvc.run.labelling.labeller import OWN, PREVIOUS, REFERENCE, Labeller, read_labellers
from distsvc.run.learning.preparation import PREPARATION, Preparation, prepared_block
from distsvc.run.learning.survey import Pilot, pilot_limit, rows_aside
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.run.work.plan import Plan
from distsvc.storage.places.arrays import file_facts
from distsvc.storage.places.store import Store, changed_since
from distsvc.storage.publishing.formats import output_format
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.id_texts import id_texts

FILLED = "filled"
"""Folder of labels in a format that is converted from the parts."""


class PilotIds:
    """Ids of the rows that may be in the pilot, which the page may name.

    Partitions have their own, merged into one.

    Attributes
    ----------
    rows : ndarray of shape (m,), int64
        Numbers of the rows in the table.
    keys : ndarray of shape (m,), uint64
        Keys of the rows, ascending.
    texts : ndarray of shape (m,), str

    """

    def __init__(self, run: RunDirectory):
        self.seed, self.aside = run.plan.seed, rows_aside(run)
        self.limit = np.uint64(pilot_limit(run.plan))
        # Extreme rows are not in the pilot, and each shares the key of another row.
        self.most = run.plan.pilot_rows + len(self.aside)
        self.rows, self.keys = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        self.texts = np.zeros(0, "U1")

    def add(self, block: Block) -> None:
        """Add the rows of a block."""
        numbers = block.rows - np.searchsorted(self.aside, block.rows)
        keys = sampling.row_keys(self.seed, numbers)
        places = np.flatnonzero(keys <= self.limit)
        if len(self.keys) >= self.most:
            places = places[keys[places] <= self.keys[-1]]
        places = places[sampling.lowest(keys[places], self.most)]
        self._keep(block.rows[places], keys[places], id_texts(block.ids, places))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays for `merge`."""
        return {"id_rows": self.rows, "id_keys": self.keys, "id_texts": self.texts}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Add the ids of another partition."""
        self._keep(arrays["id_rows"], arrays["id_keys"], arrays["id_texts"])

    def by_row(self) -> dict[int, str]:
        """Return the ids by row number, without missing ids."""
        pairs = zip(self.rows.tolist(), self.texts.tolist(), strict=True)
        return {row: text for row, text in pairs if text}

    def _keep(self, rows: np.ndarray, keys: np.ndarray, texts: np.ndarray) -> None:
        keys = np.concatenate([self.keys, keys])
        kept = sampling.lowest(keys, self.most)
        self.keys = keys[kept]
        self.rows = np.concatenate([self.rows, rows])[kept]
        self.texts = np.concatenate([self.texts, texts])[kept]


@dataclass(frozen=True)
class Labelled:
    """A labelled table.

    Attributes
    ----------
    labeller, before : Labeller
        The labeller in use, and the previous run's labeller, if there is one.
    pilot : Pilot
        The raw rows with the lowest keys.
    ids : IdReport or None
        Report on duplicate ids.
    row_ids : dict of int to str
        Ids of the pilot's rows, by row number.

    """

    labeller: Labeller
    before: Labeller | None
    counts: Counts
    optional: list[OptionalColumns]
    pilot: Pilot
    contents: ClusterContents
    ids: IdReport | None = None
    row_ids: dict[int, str] = field(default_factory=dict)

    @property
    def outlier_share(self) -> float | None:
        """Share of the rows outside every cluster; None if the rule has no outside."""
        return outlier_share(self.labeller, self.counts.sizes)


def outlier_share(labeller: Labeller, sizes: np.ndarray) -> float | None:
    """Return the share of the rows outside, from the rows (k, 2) inside and outside."""
    if not labeller.rule.words.has_outliers:
        return None
    return float(sizes[:, 1].sum() / max(sizes.sum(), 1))


def label_table(steps: Steps, of: str = OWN, surveyed: Pilot | None = None) -> Labelled:
    """Write label, score and outlier flag of every row, and add up the counts.

    `of` is the prefix of the labeller's results. `surveyed` is the pilot of a survey; without a
    survey, the pass also collects the pilot.
    """
    run, phase = steps.run, LABEL_ROWS if of == OWN else ASSIGN
    labeller, before = read_labellers(run, of)
    check_optional(type(labeller.rule), run.plan.output)
    counts, optional, contents = _begin(run, of, labeller, before)
    pilot, ids = surveyed or Pilot(run.plan), _id_counts(run.plan)
    row_ids = _pilot_ids(run)
    _forget_lost(run, phase, parts_place(run))
    for number, result in enumerate(steps.map(phase)):
        counts.merge(result, part_files(run.plan, number))
        contents.merge(result.arrays)
        for one in optional:
            one.merge(result.arrays)
        if ids is not None:
            ids.merge(result)
        if row_ids is not None:
            row_ids.merge(result.arrays)
        if of == PREVIOUS:
            pilot.add(result.arrays["pilot"], result.arrays["keys"])
    report = None
    if ids is not None:
        report = ids.report(parts_place(run), partial(_stored, run, phase), str(run.plan.table.id))
    named = {} if row_ids is None else row_ids.by_row()
    return Labelled(labeller, before, counts, optional, pilot, contents, report, named)


def fill_output(steps: Steps, counts: Counts) -> None:
    """Convert the parts into the output's format, unless they are published as they are."""
    run, output = steps.run, output_format(steps.run.plan.output.format)
    parts = [(part["stored"], part["rows"]) for part in counts.parts]
    n = output.begin(run.place(FILLED), parts_place(run), parts)
    if n:
        _forget_lost(run, FILL, run.stored)
        run.write("parts", Result({"parts": parts}))
        steps.do(FILL, n)


def label_files(run: RunDirectory, counts: Counts) -> dict[str, Entry]:
    """Return the files of labels to publish, by their names in a folder.

    `TemporaryError` if one is lost or has changed.
    """
    files: dict[str, Entry] = {}
    if output_format(run.plan.output.format).publishes_parts:
        there = run.stored.sizes()
        for part in counts.parts:
            name, found = part["stored"], there.get(part["stored"])
            if found is None:
                raise TemporaryError(f"{name} has gone from {run.stored.address}")
            if found != part["bytes"]:
                raise TemporaryError(f"{name} has {found} bytes, and had {part['bytes']}")
            files[part["file"]] = {k: v for k, v in dict(part).items() if k != "file"}  # type: ignore[misc]
        return files
    folder, place = run.folder(FILLED), run.place(FILLED)
    for name in place.sizes():
        files[name] = {"stored": f"{folder}/{name}", **file_facts(place.local(name))}
    for result in run.names(FILL.name):
        for name, entry in run.load(result).facts["files"].items():
            files[name.split("/", 2)[2]] = {"stored": name, **entry}
    return files


def _stored(run: RunDirectory, phase: Phase, number: int) -> list[str]:
    """Return the paths in `parts_place` of a partition's labels."""
    return [part["stored"] for part in run.load(phase.result(number)).facts["parts"]]


def _id_counts(plan: Plan) -> IdCounts | None:
    """Return empty counts of ids, if the table has ids that can be compared."""
    table = plan.table
    counted = table.id is not None and counts_ids(table.type_of(table.id))
    return IdCounts.of_table(table.n_rows) if counted else None


def _pilot_ids(run: RunDirectory) -> PilotIds | None:
    """Return no ids yet, if the table has ids."""
    return None if run.plan.table.id is None else PilotIds(run)


def _begin(
    run: RunDirectory, of: str, labeller: Labeller, before: Labeller | None
) -> tuple[Counts, list[OptionalColumns], ClusterContents]:
    """Return empty counts, optional columns and contents.

    Values are counted between the edges of both labellers, and of the reference.
    """
    known = {of: labeller} | ({} if before is None else {PREVIOUS: before})
    edges = {name: one.column_edges for name, one in known.items()}
    places = {name: one.places(run.plan.table.columns) for name, one in known.items()}
    if run.has(REFERENCE):
        found, table = run.read(REFERENCE), list(run.plan.table.columns)
        edges[REFERENCE] = found.arrays["column_edges"]
        places[REFERENCE] = [table.index(name) for name in found.facts["columns"]]
    preparation = Preparation.read(run, of + PREPARATION)
    optional = optional_columns(labeller, preparation, run.plan.table.features, run.plan.output)
    k = labeller.rule.n_clusters
    contents = ClusterContents.empty(run.plan, preparation, k)
    return Counts.empty(k, edges, places), optional, contents


def _forget_lost(run: RunDirectory, phase: Phase, place: Store) -> None:
    """Remove results of an earlier start whose files are lost or changed, as by a power loss."""
    owners: dict[str, str] = {}
    known: dict[str, dict[str, int | str]] = {}
    for name in run.names(phase.name):
        facts = run.load(name).facts
        if phase is FILL:
            files = facts["files"]
        else:
            files = {part["stored"]: part for part in facts["parts"]}
        owners |= dict.fromkeys(files, name)
        known |= files
    for file in changed_since(place, known):
        run.remove(owners[file])


def label_partition(run: RunDirectory, number: int, of: str = OWN) -> Result:
    """Write labels, scores and outlier flags of a partition, and count them."""
    plan, (labeller, before) = run.plan, read_labellers(run, of)
    rule, ids, edges = labeller.rule, labeller.ids, labeller.score_edges
    counts, optional, contents = _begin(run, of, labeller, before)
    pilot = None if of == OWN else Pilot.limited(plan)
    given, row_ids = _id_counts(plan), _pilot_ids(run)
    parts = LabelledParts(run, number, type(rule), of)
    wanted = {"with_ids": plan.table.id is not None, "with_labels": plan.table.label is not None}
    wanted["with_compared"] = bool(plan.table.compared)
    for block in plan.blocks(number, **wanted):
        Z = prepared_block(run, block, of + PREPARATION)
        columns: Columns = dict(rule.label(Z))
        for one in optional:
            columns |= one.add(block, Z, columns)
        counts.add(block.X, columns, edges, block.labels)
        contents.add(block, columns["label"], plan.seed)
        columns["label"] = ids[columns["label"]]
        parts.add(block, columns)
        if given is not None:
            given.add(block.ids)
        if row_ids is not None:
            row_ids.add(block)
        if pilot is not None:
            pilot.add(block.X, sampling.row_keys(plan.seed, block.rows))
    more = {} if pilot is None else {"pilot": pilot.X, "keys": pilot.keys}
    more |= contents.arrays()
    for one in optional:
        more |= one.arrays()
    if given is not None:
        more |= given.arrays()
    if row_ids is not None:
        more |= row_ids.arrays()
    return counts.result(parts.written(), more)


def fill_piece(run: RunDirectory, number: int) -> Result:
    """Write a piece of an output that is converted from the Parquet parts."""
    parts = [(name, rows) for name, rows in run.read("parts").facts["parts"]]
    output = output_format(run.plan.output.format)
    files = output.fill(run.place(FILLED), parts_place(run), parts, number)
    return Result({"files": {f"{run.folder(FILLED)}/{name}": one for name, one in files.items()}})


LABEL_ROWS = Phase("label", label_partition)
ASSIGN = Phase("assign", partial(label_partition, of=PREVIOUS))
FILL = Phase("fill", fill_piece)
