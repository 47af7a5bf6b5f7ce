"""The published columns of a run, the optional columns of ``[output]``, and the files of labels.

The reasons of a row are the columns that lower its score most.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from distsvc.errors import JobFileError
from distsvc.job.config import Job, OutputConfig
from distsvc.models.rules.membership import SHARE_BYTES, Membership
from distsvc.models.rules.rule import Rule
from distsvc.report.content.parts import (
    FarRow,
    LeadingColumn,
    MembershipPart,
    Reason,
    ReasonsPart,
)
from distsvc.run.algorithms.algorithm import AlgorithmJob, Columns, Parts, PilotRows
from distsvc.run.labelling.counts import ClusterContents, Tally, levels_of_features, shares_in
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.learning.preparation import Preparation, clip_rows
from distsvc.run.learning.stream import Terms
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.formats import PUBLISHED_COLUMNS, check_zarr, meanings
from distsvc.storage.rows.blocks import Block, Table, id_texts
from distsvc.storage.rows.features import Feature, groups_of, names_of, units_of
from distsvc.storage.tables.opening import id_type


class OptionalColumns(Tally):
    """Base of the published columns that a job can request in ``[output]``."""

    keys: ClassVar[tuple[str, ...]]  # keys of ``[output]`` that request the columns

    def __init__(
        self,
        labeller: Labeller,
        preparation: Preparation,
        features: Sequence[Feature],
        output: OutputConfig,
        types: Sequence[str] = (),
    ):
        self.labeller, self.preparation = labeller, preparation
        self.features, self.output, self.types = features, output, types
        self.begin()

    def begin(self) -> None:
        """Initialize the counts, and further attributes that `add` uses."""

    def parts(self, rows: PilotRows, preparation: Preparation, contents: ClusterContents) -> Parts:
        return {}


class MissingValues(OptionalColumns):
    """Number of missing features of each row; a vector or category counts once."""

    keys = ("missing",)

    def begin(self) -> None:
        self.firsts = groups_of(self.features)[1]

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        if not self.output.missing:
            return {}
        return {"missing": np.isnan(block.X[:, self.firsts]).sum(axis=1, dtype=np.int32)}


class Shares(OptionalColumns):
    """Membership of each row, and the row's largest shares in other clusters (`output.top`)."""

    keys = ("membership", "top")
    sums = ("shares",)

    def begin(self) -> None:
        self.shares = np.zeros(20, np.int64)

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        if not self.output.shares:
            return {}
        found = Membership.of(self.labeller.rule, Z, labelled["label"], self.output.top)
        self.shares += np.histogram(found.own, len(self.shares), (0.0, 1.0))[0]
        columns: Columns = {"membership": found.own}
        if self.output.top:
            columns |= {"next": _lists(self.labeller.ids[found.others])}
            columns |= {"next_share": _lists(found.other_shares)}
        return columns

    def parts(self, rows: PilotRows, preparation: Preparation, contents: ClusterContents) -> Parts:
        rule = self.labeller.rule
        if not self.output.shares or rule.n_clusters < 2:
            return {}
        return {"membership": MembershipPart(meaning=rule.shared, counts=self.shares.tolist())}


def _lists(values: np.ndarray) -> pa.Array:
    n, m = values.shape
    offsets = np.arange(0, n * m + 1, m) if m else np.zeros(n + 1)
    return pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(values.ravel()))


class Reasons(OptionalColumns):
    """Reasons of outliers, or of the rows with the lowest scores if the rule has no outliers.

    If `output.reasons` is 0, reasons are only counted for the report: in all rows if the rule
    computes them quickly, else in some pilot rows.
    """

    keys = ("reasons",)
    sums = ("leading",)
    lists = ("far_rows", "far_scores", "far_labels", "far_ids", "far_X")
    n_farthest = 10
    """Number of farthest rows, and of most frequent first reasons, in the report."""
    n_reported = 3
    """Number of columns that the report names for each of the farthest rows."""
    n_sampled = 200
    """Number of pilot rows whose reasons are counted if all rows would take too long."""
    piece_bytes = 2**20
    """Bytes of the rows whose reasons are computed at a time."""

    def begin(self) -> None:
        self.rule, self.typical = self.labeller.rule, self.labeller.typical
        self.names, self.firsts = groups_of(self.features)
        self.prepared_firsts = self.preparation.firsts[self.firsts]
        self.width = len(names_of(self.features))
        self.sizes = np.diff(self.firsts, append=self.width)
        levels = levels_of_features(self.features, self.preparation, self.types)
        self.levels = {counted.places.start: counted for counted in levels}
        self.units = units_of(self.features, self.types) if self.types else {}
        self.count = self.output.reasons
        self.counts_all = self.count > 0 or self.rule.quick_pulls
        self.leading = np.zeros(len(self.names), np.int64)  # rows by the column of the first reason
        self.far_rows, self.far_scores = np.zeros(0, np.int64), np.zeros(0, np.float32)
        self.far_labels, self.far_ids = np.zeros(0, np.int32), np.zeros(0, "U1")
        self.far_X = np.zeros((0, self.width))

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        """Count the reasons of a block's rows; return the column of reasons as text.

        Only rows that score below `typical.least` have reasons. All other rows have None.
        """
        label, score = labelled["label"], labelled["score"]
        chosen = self._lowest(score)
        values = block.rows[chosen], score[chosen], label[chosen], id_texts(block.ids, chosen)
        self.append(dict(zip(self.lists, (*values, block.X[chosen]), strict=True)))
        if not self.counts_all:
            return {}
        text: list[str | None] = [None] * len(score)
        for part in self._pieces(np.flatnonzero(score < self.typical.least)):
            order, shares = self.heaviest(Z[part], label[part])
            self.leading += self._first(order, shares)
            for place, ks, parts in zip(part, order, shares, strict=True) if self.count else ():
                text[place] = self._text(ks[: self.count], parts[: self.count], block.X[place])
        return {"reasons": text} if self.count else {}

    def heaviest(self, Z: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns (m, r) that lower the scores of rows Z (m, D) most, and their shares.

        The shares of all columns of a row add up to 1.
        """
        pulls = np.maximum(self.rule.pulls(Z, labels, self.typical, self.prepared_firsts), 0.0)
        most = max(self.count, self.n_reported)
        order = np.argsort(-pulls, axis=1, kind="stable")[:, :most]
        sums = pulls.sum(axis=1, keepdims=True)
        shares = np.take_along_axis(pulls, order, axis=1)
        return order, np.divide(shares, sums, out=np.zeros_like(shares), where=sums > 0.0)

    def append(self, values: Mapping[str, np.ndarray]) -> None:
        """Append rows, then keep only the `n_farthest` rows with the lowest scores.

        Of rows with equal scores, the first rows of the table are kept.
        """
        super().append(values)
        self.keep(np.lexsort((self.far_rows, self.far_scores))[: self.n_farthest])

    def parts(self, rows: PilotRows, preparation: Preparation, contents: ClusterContents) -> Parts:
        counts, counted, self.level_rows = self.leading, None, contents.rows
        if not self.counts_all:
            places = np.flatnonzero(rows.scores < self.typical.least)[: self.n_sampled]
            counted = len(places)
            for part in self._pieces(places):
                counts = counts + self._first(*self.heaviest(rows.X[part], rows.labels[part]))
        leading = [
            LeadingColumn(column=self.names[k], rows=int(counts[k]))
            for k in np.argsort(-counts, kind="stable")[: self.n_farthest]
            if counts[k] > 0
        ]
        farthest = self._rows(rows, preparation)
        return {"reasons": ReasonsPart(leading=leading, farthest=farthest, counted=counted)}

    def _pieces(self, places: np.ndarray) -> Iterator[np.ndarray]:
        step = max(1, self.piece_bytes // (8 * self.width))
        for first in range(0, len(places), step):
            yield places[first : first + step]

    def _first(self, order: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Count rows by the column of their first reason, (d,). `heaviest` gives the arguments."""
        return np.bincount(order[:, 0][shares[:, 0] > 0.0], minlength=self.leading.size)

    def _lowest(self, score: np.ndarray) -> np.ndarray:
        """Return the positions of rows in a block that may be among the `n_farthest`."""
        known = self.far_scores
        low = score < (known[-1] if len(known) == self.n_farthest else self.typical.least)
        places = np.flatnonzero(low)
        if len(places) <= self.n_farthest:
            return places
        last = np.partition(score[places], self.n_farthest - 1)[self.n_farthest - 1]
        equal = places[score[places] == last][: self.n_farthest]
        return np.concatenate([places[score[places] < last], equal])

    def _named(self, k: int, row: np.ndarray) -> str:
        """Return feature k of a row (d,) in words: "age", "age missing" or "country=Chile"."""
        first = int(self.firsts[k])
        if np.isnan(row[first]):
            return f"{self.names[k]} missing"
        counted = self.levels.get(first)
        level = counted.levels_of(row[None])[0] if counted else 0
        if counted is None or level == len(counted.names):
            return self.names[k]
        return f"{counted.column}={counted.names[level]}"

    def _text(self, ks: np.ndarray, shares: np.ndarray, row: np.ndarray) -> str:
        named = zip(ks, shares, strict=True)
        return ", ".join(
            f"{self._named(k, row)} ({share:.0%})" for k, share in named if share >= 0.005
        )

    def _rows(self, rows: PilotRows, preparation: Preparation) -> list[FarRow]:
        """Return the farthest rows with their reasons and the usual values of their cluster."""
        found = list[FarRow]()
        if not len(self.far_rows):
            return found
        order, shares = self.heaviest(clip_rows(preparation(self.far_X)), self.far_labels)
        columns = self.far_rows, self.far_ids, self.far_scores, self.far_labels
        each = zip(*(column.tolist() for column in columns), strict=True)
        for i, (row, id, score, label) in enumerate(each):
            usual = rows.raw[(rows.labels == label) & (rows.scores >= self.typical.least)]
            heavy = zip(order[i, : self.n_reported], shares[i, : self.n_reported], strict=True)
            reasons = [
                self._reason(int(k), float(share), self.far_X[i], usual, label)
                for k, share in heavy
                if share > 0.0
            ]
            found.append(FarRow(row=row, id=id or None, score=score, label=label, reasons=reasons))
        return found

    def _reason(
        self, k: int, share: float, row: np.ndarray, usual: np.ndarray, label: int
    ) -> Reason:
        """Return feature k as a reason of a row (d,), compared with the rows `usual` (m, d)."""
        first = self.firsts[k]
        if first in self.levels:
            of = self.levels[first]
            own, rows = of.levels_of(row[None])[0], self.level_rows[of.column]
            known = rows if own == len(of.names) else rows[:, :-1]
            held = float(shares_in(known, label)[0, own])
            return Reason(column=self._named(k, row), share=share, held=held)
        if self.sizes[k] > 1:
            return Reason(column=self.names[k], share=share, width=int(self.sizes[k]))
        known = usual[~np.isnan(usual[:, first]), first]
        value, typical = float(row[first]), float(np.median(known)) if len(known) else None
        unit = self.units.get(self.names[k], "")
        return Reason(column=self.names[k], share=share, value=value, typical=typical, unit=unit)


ROW_NAME = PUBLISHED_COLUMNS[0].name

OPTIONAL_COLUMNS: tuple[type[OptionalColumns], ...] = (Reasons, Shares, MissingValues)


def optional_columns(
    labeller: Labeller,
    preparation: Preparation,
    features: Sequence[Feature],
    output: OutputConfig,
    types: Sequence[str],
    reported: bool = True,
) -> list[OptionalColumns]:
    """Return the optional columns that the output requests, or all of them if `reported`.

    The report has counts of columns that the output does not request.
    """
    given = output.optional()
    wanted = (of for of in OPTIONAL_COLUMNS if reported or any(given[key] for key in of.keys))
    return [of(labeller, preparation, features, output, types) for of in wanted]


def check_optional(rule: type[Rule], output: OutputConfig) -> None:
    """Raise JobFileError if a rule can't compute an optional column of an output."""
    if output.shares and not rule.shared:
        key = "top" if output.top else "membership"
        raise JobFileError(
            f"output.{key} needs an algorithm with clusters, found one that only finds outliers"
        )


def label_memory(output: OutputConfig, n_rows: int) -> Terms:
    """Return the bytes that a task needs for the labels of `n_rows` rows."""
    # Id, label, score, outlier flag and optional columns, all twice: as arrays, and encoded.
    row = 40 + 2 * (4 * output.missing + 4 * output.shares + 8 * output.top)
    shares = {"shares of clusters": 2.0 * SHARE_BYTES * output.shares}
    return {"labels of a partition": 1.0 * row * n_rows} | shares


def published_names(rule: type[Rule], output: OutputConfig) -> list[str]:
    """Return the names of the published columns, except the row's id."""
    given = output.optional()
    return [*rule.meanings, *(column.name for column in PUBLISHED_COLUMNS if given.get(column.key))]


def check_output(job: Job, table: Table, algorithm: AlgorithmJob) -> None:
    """Raise JobFileError, before any work, if the output's format can't store the columns."""
    check_optional(algorithm.rules[0], job.output)
    names = published_names(algorithm.rules[0], job.output)
    if table.id in names:
        raise JobFileError(
            f"input.id = {table.id!r} is also the name of a published column "
            f"({', '.join(names)}); rename it in the table, or leave input.id out"
        )
    if job.output.format == "zarr":
        check_zarr(table.id or ROW_NAME, id_type(table), names)


def schema(run: RunDirectory, rule: Rule) -> dict[str, str]:
    """Return the meaning of each published column."""
    names = published_names(type(rule), run.plan.output)
    share = f"float32, 0 to 1: the share of the row's own cluster: {rule.shared}"
    own = dict(rule.meanings) | {"membership": share}
    return meanings(run.plan.table.id or ROW_NAME, names, own)


def parts_place(run: RunDirectory) -> Store:
    """Return the store to which tasks write labelled parts.

    Parts in Parquet are published as they are, so they are written to the output. For other
    formats, the store is a work folder.
    """
    if run.plan.output.format == "parquet":
        return run.stored
    return run.work.below("parts")
