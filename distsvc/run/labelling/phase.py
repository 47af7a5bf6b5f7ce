"""The label pass: one reading of the table, a file of labels for each part, and counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from distsvc.errors import TemporaryError
from distsvc.models.rows import sampling
from distsvc.run.algorithms.algorithm import Columns
from distsvc.run.labelling.columns import (
    ROW_NAME,
    OptionalColumns,
    check_optional,
    optional_columns,
    parts_place,
    published_names,
)
from distsvc.run.labelling.counts import (
    ClusterContents,
    Counts,
    Entry,
    IdCounts,
    IdReport,
    Tally,
    counts_ids,
)
from distsvc.run.labelling.labeller import OWN, PREVIOUS, REFERENCE, Labeller, read_labellers
from distsvc.run.learning.preparation import PREPARATION, Preparation, prepared_block
from distsvc.run.learning.survey import Pilot, extreme_row_numbers, pilot_limit
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.storage.places.store import Store, changed_since
from distsvc.storage.publishing.formats import PartWriter, part_file, write_zarr
from distsvc.storage.rows.blocks import Block, id_texts
from distsvc.storage.tables.opening import id_type

FILL, FILLED = "fill", "filled"
"""Name of the step that converts the parts to another format, and folder of its files."""

LABEL_FILES = "files"
"""Key in the facts of a result: the `Entry` of each file of labels that a task has written."""


class PilotIds(Tally):
    """Ids of the rows that may be in the pilot, in the order of keys."""

    lists = ("id_rows", "id_keys", "id_texts")

    def __init__(self, run: RunDirectory):
        self.seed, self.extreme = run.plan.seed, extreme_row_numbers(run)
        self.limit = np.uint64(pilot_limit(run.plan))
        # Extreme rows are not in the pilot, and each shares the key of another row.
        self.most = run.plan.pilot_rows + len(self.extreme)
        self.id_rows, self.id_keys = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        self.id_texts = np.zeros(0, "U1")

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        numbers = block.rows - np.searchsorted(self.extreme, block.rows)
        keys = sampling.row_keys(self.seed, numbers)
        places = np.flatnonzero(keys <= self.limit)
        if len(self.id_keys) >= self.most:
            places = places[keys[places] <= self.id_keys[-1]]
        places = places[sampling.lowest(keys[places], self.most)]
        more = {"id_rows": block.rows[places], "id_keys": keys[places]}
        self.append(more | {"id_texts": id_texts(block.ids, places)})
        return {}

    def append(self, values: Mapping[str, np.ndarray]) -> None:
        super().append(values)
        self.keep(sampling.lowest(self.id_keys, self.most))


class IgnoredRows(Tally):
    """Rows that were left out of learning: numbers, outlier flags, and ids as text."""

    lists = ("ignored_rows", "ignored_outliers", "ignored_ids")

    def __init__(self, run: RunDirectory):
        self.extreme = extreme_row_numbers(run)
        self.ignored_rows, self.ignored_outliers = np.zeros(0, np.int64), np.zeros(0, bool)
        self.ignored_ids = np.zeros(0, "U1")

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        places = np.flatnonzero(np.isin(block.rows, self.extreme))
        none = np.full(len(places), "")
        ids = none if block.ids is None else id_texts(block.ids, places)
        more = {"ignored_rows": block.rows[places], "ignored_outliers": labelled["outlier"][places]}
        self.append(more | {"ignored_ids": ids})
        return {}


@dataclass(frozen=True)
class Labelled:
    """Results of the label pass: counts of the table, its labeller and its pilot."""

    labeller: Labeller
    before: Labeller | None  # the previous run's labeller
    counts: Counts
    optional: list[OptionalColumns]
    pilot: Pilot  # the raw rows with the lowest keys
    contents: ClusterContents
    ignored: IgnoredRows
    ids: IdReport | None = None
    row_ids: dict[int, str] = field(default_factory=dict)  # ids of the pilot's rows, by row number

    @property
    def outlier_share(self) -> float | None:
        """Share of the rows outside every cluster; None if the rule has no outliers."""
        return outlier_share(self.labeller, self.counts.sizes)


def outlier_share(labeller: Labeller, sizes: np.ndarray) -> float | None:
    """Return the share of outliers among all rows; None if the rule has no outliers.

    `sizes` (k, 2) are numbers of rows by cluster: inside, and outliers.
    """
    if not labeller.rule.words.has_outliers:
        return None
    return float(sizes[:, 1].sum() / max(sizes.sum(), 1))


class Tallies(NamedTuple):
    """All counts of labelled rows.

    `row_ids` is None if the table has no ids, and `ids` if there are no ids that can be compared.
    """

    optional: list[OptionalColumns]
    counts: Counts
    contents: ClusterContents
    ignored: IgnoredRows
    ids: IdCounts | None
    row_ids: PilotIds | None

    @classmethod
    def of(cls, run: RunDirectory, of: str, labeller: Labeller, before: Labeller | None) -> Self:
        """Return empty counts for a run in which `labeller` labels the rows.

        Values of columns are counted in the bins of both labellers and of the reference for drift.
        `of` is the prefix of the labeller, `before` the labeller of the previous run.
        """
        plan, table = run.plan, run.plan.table
        known = {of: labeller} | ({} if before is None else {PREVIOUS: before})
        edges = {name: one.column_edges for name, one in known.items()}
        places = {name: one.places(table.columns) for name, one in known.items()}
        if run.has(REFERENCE):
            found, names = run.read(REFERENCE), list(table.columns)
            edges[REFERENCE] = found.arrays["column_edges"]
            places[REFERENCE] = [names.index(name) for name in found.facts["columns"]]
        preparation = Preparation.read(run, of + PREPARATION)
        k, has_ids = labeller.rule.n_clusters, table.id is not None
        kind = None if table.id is None else table.type_of(table.id)
        counted = kind is not None and (counts_ids(kind) or pa.types.is_null(kind))
        return cls(
            optional_columns(labeller, preparation, table.features, plan.output, table.types),
            Counts.empty(k, labeller.score_edges, edges, places),
            ClusterContents.empty(plan, preparation, k),
            IgnoredRows(run),
            IdCounts.of_table(table.n_rows) if counted else None,
            PilotIds(run) if has_ids else None,
        )

    @property
    def each(self) -> list[Tally]:
        """All counts except None; optional columns come first."""
        others = self.counts, self.contents, self.ignored, self.ids, self.row_ids
        return [*self.optional, *(one for one in others if one is not None)]


def label_table(steps: Steps, of: str = OWN, surveyed: Pilot | None = None) -> Labelled:
    """Write label, score and outlier flag of every row, and add up the counts.

    `of` is the prefix of the labeller's results. If it is `PREVIOUS`, there was no survey, and this
    pass collects the pilot. Otherwise `surveyed` is the pilot.
    """
    run, phase = steps.run, LABEL_ROWS if of == OWN else ASSIGN
    (labeller, before), place = read_labellers(run, of), parts_place(run)
    check_optional(type(labeller.rule), run.plan.output)
    tallies, pilot = Tallies.of(run, of, labeller, before), surveyed or Pilot(run.plan)
    optional, counts, contents, ignored, ids, row_ids = tallies
    _forget_lost(run, place, run.names(phase.name))
    for result in steps.map(phase):
        counts.parts |= result.facts[LABEL_FILES]
        for one in tallies.each:
            one.merge(result.arrays)
        if of == PREVIOUS:
            pilot.add(result.arrays["pilot"], result.arrays["keys"])
    files = [part["stored"] for part in counts.parts.values()]
    report = None if ids is None else ids.report(place, files, str(run.plan.table.id))
    named = {}
    if row_ids is not None:
        pairs = zip(row_ids.id_rows.tolist(), row_ids.id_texts.tolist(), strict=True)
        named = {row: text for row, text in pairs if text}
    return Labelled(labeller, before, counts, optional, pilot, contents, ignored, report, named)


def fill_output(steps: Steps, counts: Counts) -> None:
    """Convert the parts to Zarr, if that is the output's format."""
    run = steps.run
    if run.plan.output.format == "parquet":
        return

    def convert() -> Result:
        parts = [(part["stored"], part["rows"]) for part in counts.parts.values()]
        files = write_zarr(run.place(FILLED), parts_place(run), parts)
        folder = run.folder(FILLED)
        entries = {name: {"stored": f"{folder}/{name}", **files[name]} for name in sorted(files)}
        return Result({LABEL_FILES: entries}, rows=counts.n_rows)

    _forget_lost(run, run.stored, [FILL] if run.has(FILL) else [])
    steps.work_out(FILL, convert)


def label_files(run: RunDirectory, counts: Counts) -> dict[str, Entry]:
    """Return the files of labels by name; `TemporaryError` if one is lost or has changed."""
    if run.plan.output.format == "zarr":
        return dict(run.read(FILL).facts[LABEL_FILES])
    there = run.stored.sizes()
    for part in counts.parts.values():
        name, found = part["stored"], there.get(part["stored"])
        if found is None:
            raise TemporaryError(
                f"{name} is missing from {run.stored.address}; run the same command again"
            )
        if found != part["bytes"]:
            raise TemporaryError(
                f"{name} changed during the run: expected {part['bytes']} bytes, found {found}; "
                "run the same command again"
            )
    return counts.parts


def _forget_lost(run: RunDirectory, place: Store, names: Sequence[str]) -> None:
    """Remove the stored results `names` of tasks whose files are missing or have changed."""
    for name in names:
        entries = run.load(name).facts[LABEL_FILES].values()
        if changed_since(place, {entry["stored"]: entry for entry in entries}):
            run.remove(name)


def label_partition(run: RunDirectory, number: int, of: str = OWN) -> Result:
    """Label the rows of a partition, write the file of their labels, and count them.

    `of` is the prefix of the labeller: `OWN` for the new model, `PREVIOUS` for the previous one.
    """
    plan, (labeller, before) = run.plan, read_labellers(run, of)
    table, rule = plan.table, labeller.rule
    tallies, pilot = Tallies.of(run, of, labeller, before), Pilot(plan, pilot_limit(plan))
    preparation = Preparation.read(run, of + PREPARATION)
    part = PartWriter(
        table.id or ROW_NAME, id_type(table), published_names(type(rule), plan.output)
    )
    wanted = {"with_ids": table.id is not None, "with_labels": table.label is not None}
    for block in plan.blocks(number, with_compared=bool(table.compared), **wanted):
        Z = prepared_block(run, block, preparation)
        columns: Columns = dict(rule.label(Z))
        for one in tallies.each:
            columns |= one.add(block, Z, columns)
        columns["label"] = labeller.ids[columns["label"]]
        part.add(block.rows if block.ids is None else block.ids, columns)
        if of == PREVIOUS:
            pilot.add(block.X, sampling.row_keys(plan.seed, block.rows))
    arrays = {"pilot": pilot.X, "keys": pilot.keys}
    for one in tallies.each:
        arrays |= one.arrays()
    # The prefix separates the files of two models.
    name = f"{run.folder(f'{of}labels')}/{part_file(number)}"
    with parts_place(run).created(name, again=False) as path:
        entry = {"stored": name, **part.write(path)}
    return Result({LABEL_FILES: {part_file(number): entry}}, arrays, rows=part.n_rows)


LABEL_ROWS = Phase("label", label_partition)
ASSIGN = Phase("assign", partial(label_partition, of=PREVIOUS))
