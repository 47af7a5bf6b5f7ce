"""Counts of labelled rows, which add up over partitions: sizes, contents of clusters, ids."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import shown
from distsvc.models.columns.model import CategoryColumn
from distsvc.models.nights.drift import ColumnCounts, counts_between
from distsvc.models.rows.sampling import row_keys, text_keys
from distsvc.run.algorithms.algorithm import Columns
from distsvc.run.labelling.labeller import HISTOGRAM_BINS
from distsvc.run.learning.preparation import Preparation
from distsvc.run.work.plan import Plan
from distsvc.storage.places.store import Store
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.features import Feature, Numeric, Vector, placed

Places = slice | list[int]

Entry = dict[str, Any]
"""A file of labels: ``rows``, ``bytes``, ``sha256``, and ``stored``, its path in `parts_place`."""


class Tally:
    """Counts of labelled rows that add up over partitions.

    Each partition has its own object. One object for the whole table merges the arrays of all
    partitions. The names in `sums` and `lists` are unique among all subclasses.
    """

    sums: ClassVar[tuple[str, ...]] = ()  # attributes that are added up
    lists: ClassVar[tuple[str, ...]] = ()  # attributes with values of selected rows

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        """Count a block; return further columns to publish.

        Z (n, D) are the prepared rows. `labelled` has the columns so far, with labels 0 to k - 1.
        """
        raise NotImplementedError

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the counts of all blocks for `merge`."""
        return {name: getattr(self, name) for name in (*self.sums, *self.lists)}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Add the counts of the next partition."""
        for name in self.sums:
            counts = getattr(self, name)
            counts += arrays[name]
        self.append(arrays)

    def append(self, values: Mapping[str, np.ndarray]) -> None:
        """Append values of further rows to the lists."""
        for name in self.lists:
            setattr(self, name, np.concatenate([getattr(self, name), values[name]]))

    def keep(self, places: np.ndarray) -> None:
        """Keep only the values at these positions of the lists, in the order of `places`."""
        for name in self.lists:
            setattr(self, name, getattr(self, name)[places])


@dataclass
class Counts(Tally):
    """Numbers of labelled rows by cluster, score, column value and known class."""

    sums = ("sizes", "histogram")

    sizes: np.ndarray  # (k, 2): rows of each cluster inside and outside
    histogram: np.ndarray  # (HISTOGRAM_BINS,): rows by score, between `score_edges`
    score_edges: np.ndarray
    columns: dict[str, ColumnCounts]  # by prefix: `OWN`, `PREVIOUS` or `REFERENCE`
    places: dict[str, Places]  # positions of the columns, by prefix
    classes: dict[str, np.ndarray] = field(default_factory=dict)  # (k,): rows, by known class
    parts: dict[str, Entry] = field(default_factory=dict)  # files of labels, in table order

    @classmethod
    def empty(
        cls,
        n_clusters: int,
        score_edges: np.ndarray,
        edges: Mapping[str, np.ndarray],
        places: Mapping[str, Places],
    ) -> Self:
        columns = {name: ColumnCounts.empty(of) for name, of in edges.items()}
        sizes, histogram = np.zeros((n_clusters, 2), np.int64), np.zeros(HISTOGRAM_BINS, np.int64)
        return cls(sizes, histogram, score_edges, columns, dict(places))

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def n_clusters(self) -> int:
        """Number of clusters with rows; the rule may have further clusters."""
        return used_clusters(self.sizes)

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        for name, of in self.columns.items():
            of.add(np.ascontiguousarray(block.X[:, self.places[name]]))
        label, k = labelled["label"], len(self.sizes)
        both = np.bincount(2 * label + labelled["outlier"], minlength=2 * k)
        self.sizes += both.reshape(-1, 2)
        self.histogram += counts_between(labelled["score"], self.score_edges)
        if block.labels is not None:
            _add_up(self.classes, _by_class(block.labels, label, k))
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        classes = np.array(list(self.classes.values()), np.int64).reshape(-1, len(self.sizes))
        names = np.frombuffer(json.dumps([*self.classes]).encode(), np.uint8)
        columns = {f"{name}columns": of.counts for name, of in self.columns.items()}
        return super().arrays() | columns | {"classes": classes, "class_names": names}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().merge(arrays)
        for name, of in self.columns.items():
            of.counts[...] += arrays[f"{name}columns"]
        names = json.loads(arrays["class_names"].tobytes())
        _add_up(self.classes, dict(zip(names, arrays["classes"], strict=True)))


def used_clusters(sizes: np.ndarray) -> int:
    """Return the number of clusters with rows; `sizes` (k, 2) has their rows inside and outside."""
    return int(sizes.any(axis=1).sum())


def _add_up(totals: dict[str, np.ndarray], counts: dict[str, np.ndarray]) -> None:
    for name, rows in counts.items():
        totals[name] = totals.get(name, 0) + rows


def _by_class(classes: pa.Array, label: np.ndarray, n_clusters: int) -> dict[str, np.ndarray]:
    """Return the number of rows in each cluster (k,), by known class."""
    encoded = classes.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    names = [str(value) for value in encoded.dictionary.to_pylist()] + ["null"]
    table = np.bincount(codes * n_clusters + label, minlength=len(names) * n_clusters)
    by_class = zip(names, table.reshape(-1, n_clusters), strict=True)
    return {name: counts for name, counts in by_class if counts.any()}


@dataclass(frozen=True)
class CountedLevels:
    """The levels of a category or flag, such as all countries.

    The label pass counts the rows of each level in the whole table.
    """

    column: str
    names: tuple[str, ...]
    codes: np.ndarray  # (L,) float64, ascending: the levels as numbers
    places: slice  # columns of X (n, d) with the levels: several if one-hot

    def levels_of(self, X: np.ndarray) -> np.ndarray:
        """Return the indices (n,) int64 of the levels of rows X (n, d); for other values, L."""
        own = X[:, self.places]
        if own.shape[1] > 1:
            return np.where(np.isnan(own[:, 0]), len(self.codes), own.argmax(axis=1))
        x = own[:, 0].astype(np.float64)
        place = np.minimum(np.searchsorted(self.codes, x), len(self.codes) - 1)
        return np.where(self.codes[place] == x, place, len(self.codes))


@dataclass
class ClusterContents(Tally):
    """Counts of levels and missing values in each cluster.

    Columns that are not features are sampled, so that the report can compare clusters in them.
    """

    sums = ("missing",)
    lists = ("sample_labels", "sample")

    features: list[CountedLevels]  # categories and flags among the features
    compared: list[CountedLevels]  # categories and flags among the columns that are not features
    missing: np.ndarray  # (k, d) int64: missing values of each cluster in each column
    width: int  # number b of columns that are not features
    share: float  # share of the rows in the sample
    seed: int
    rows: dict[str, np.ndarray]  # by column, (k, L + 1) int64: rows by level; L: other values
    sample: np.ndarray  # (m, b): columns that are not features, in about 10,000 rows
    sample_labels: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # (m,)

    @classmethod
    def empty(cls, plan: Plan, preparation: Preparation, n_clusters: int) -> Self:
        table, width = plan.table, len(plan.table.compared)
        features = levels_of_features(table.features, preparation, table.types)
        compared = levels_of_columns(table.compared)
        counted = [*features, *compared]
        rows = {c.column: np.zeros((n_clusters, len(c.codes) + 1), np.int64) for c in counted}
        missing = np.zeros((n_clusters, len(table.columns)), np.int64)
        share = min(1.0, 10_000 / max(table.n_rows, 1))
        sample = np.zeros((0, width))
        return cls(features, compared, missing, width, share, plan.seed, rows, sample)

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        labels = labelled["label"]
        for counted in self.features:
            self._count(counted, block.X, labels)
        absent = np.isnan(block.X)
        for j in np.flatnonzero(absent.any(axis=0)) if absent.any() else ():
            self.missing[:, j] += np.bincount(labels[absent[:, j]], minlength=len(self.missing))
        if block.compared is None:
            return {}
        for counted in self.compared:
            self._count(counted, block.compared, labels)
        if len(self.compared) < self.width:
            chosen = row_keys(self.seed, block.rows) < np.uint64(self.share * (2**64 - 2**12))
            own = labels[chosen].astype(np.int64)
            self.append({"sample_labels": own, "sample": block.compared[chosen]})
        return {}

    def _count(self, counted: CountedLevels, X: np.ndarray, labels: np.ndarray) -> None:
        rows = self.rows[counted.column]
        cells = labels.astype(np.int64) * rows.shape[1] + counted.levels_of(X)
        rows += np.bincount(cells, minlength=rows.size).reshape(rows.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        flat = [of.ravel() for of in self.rows.values()]
        return super().arrays() | {"level_rows": np.concatenate([*flat, np.zeros(0, np.int64)])}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().merge(arrays)
        first = 0
        for rows in self.rows.values():
            rows += arrays["level_rows"][first : first + rows.size].reshape(rows.shape)
            first += rows.size


def shares_in(rows: np.ndarray, cluster: int) -> np.ndarray:
    """Return the shares (2, L) of levels in a cluster and in all others, from `rows` (k, L)."""
    both = np.stack([rows[cluster], rows.sum(axis=0) - rows[cluster]])
    return np.asarray(both / np.maximum(both.sum(axis=1, keepdims=True), 1))


def levels_of_columns(features: Sequence[Feature]) -> list[CountedLevels]:
    """Return the levels of nominal and one-hot features, which have the codes 0, 1, 2 and so on."""
    found = []
    for feature, places in placed(features):
        names = feature.levels
        if feature.one_hot:
            names = tuple(name.partition("=")[2] for name in feature.names)
        if names:
            codes = np.arange(len(names), dtype=np.float64)
            found.append(CountedLevels(feature.column, names, codes, places))
    return found


def levels_of_features(
    features: Sequence[Feature], preparation: Preparation, types: Sequence[str]
) -> list[CountedLevels]:
    """Return the known levels of categories and flags, in no fixed order."""
    found = levels_of_columns(features)
    n_columns = sum(len(feature.names) for feature in features)
    models = preparation.columns.columns if preparation.columns else [None] * n_columns
    kinds = types or [""] * len(features)
    for (feature, places), kind in zip(placed(features), kinds, strict=True):
        model = models[places.start]
        if feature.nominal or feature.one_hot or isinstance(feature, Vector):
            continue
        if isinstance(model, CategoryColumn):
            codes = model.codes
        elif isinstance(feature, Numeric) and kind == "bool":
            codes = np.array([0.0, 1.0])
        else:
            continue
        is_truth = kind == "bool" and set(codes) <= {0.0, 1.0}
        names = tuple(("false", "true")[int(c)] if is_truth else code_text(c) for c in codes)
        found.append(CountedLevels(feature.column, names, codes, places))
    return found


def code_text(code: float) -> str:
    """Return the name of a level that is a number; whole numbers have all digits."""
    whole = abs(code) < 2**53 and code == int(code)
    return str(int(code)) if whole else f"{code:g}"


MAX_IDS = 2**22
"""Approximate maximum number of ids that are compared to find duplicates."""


@dataclass
class IdCounts(Tally):
    """Keys of the ids of each partition, and the number of missing ids."""

    bits: int  # to save memory, only one in 2^bits ids has a key
    keys: list[np.ndarray] = field(default_factory=list)  # (n,) uint64
    missing: int = 0

    @classmethod
    def of_table(cls, n_rows: int) -> Self:
        return cls(max((n_rows - 1) // MAX_IDS, 0).bit_length())

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        assert block.ids is not None
        keys = id_keys(block.ids.drop_null())
        self.keys.append(keys[keys >> np.uint64(64 - self.bits) == 0] if self.bits else keys)
        self.missing += block.ids.null_count
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        keys = np.concatenate([np.zeros(0, np.uint64), *self.keys])
        return {"ids": keys, "missing_ids": np.array(self.missing)}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.keys.append(arrays["ids"])
        self.missing += int(arrays["missing_ids"])

    def report(self, parts: Store, files: Sequence[str], column: str) -> "IdReport":
        """Return the numbers of rows with a shared id and of rows without id, and a shared id.

        The shared id is read from the column `column` of the label `files` in the store `parts`.
        """
        ordered = np.concatenate([np.zeros(0, np.uint64), *self.keys])
        ordered.sort()
        same = ordered[1:] == ordered[:-1]
        repeated = ordered[1:][same]
        if not len(repeated):
            return IdReport(0, self.missing, self.bits, None)
        shared = np.append(same, False) | np.append(False, same)
        found = (keys[np.isin(keys, repeated)] for keys in self.keys)
        number, first = next((k, keys[0]) for k, keys in enumerate(found) if len(keys))
        read = pq.read_table(parts.local(files[number]), columns=[column])
        ids = read.column(0).combine_chunks().drop_null()
        place = int(np.flatnonzero(id_keys(ids) == first)[0])
        return IdReport(int(shared.sum()), self.missing, self.bits, ids[place].as_py())


@dataclass(frozen=True)
class IdReport:
    """Numbers of rows with shared and with missing ids, and an example."""

    shared: int
    missing: int
    bits: int  # one in 2^bits ids was compared
    example: object  # an id that several rows have

    @property
    def of_part(self) -> str:
        """Text such as " (only one in 4 ids was compared)"; empty if all ids were compared."""
        return f" (only one in {2**self.bits:,} ids was compared)" if self.bits else ""

    def notes(self, column: str) -> list[str]:
        notes = []
        if self.shared:
            notes.append(
                f"{self.shared:,} rows share their id with another row{self.of_part}, such as "
                f"{column!r} = {shown(self.example)}"
            )
        if self.missing:
            have = "row has" if self.missing == 1 else "rows have"
            notes.append(f"{self.missing:,} {have} no id: column {column!r} has no value")
        return [
            f"{note}; to hold the run back in this case: [checks] unique_id = true"
            for note in notes
        ]


def counts_ids(kind: pa.DataType) -> bool:
    """Return True if ids of this Arrow type can be compared; nested values and intervals can't."""
    t = pa.types
    plain = (t.is_integer, t.is_floating, t.is_boolean, t.is_decimal, t.is_temporal, _is_text)
    return any(is_kind(kind) for is_kind in plain) and not t.is_interval(kind)


def id_keys(ids: pa.Array) -> np.ndarray:
    """Return keys (n,) uint64 of ids that are not null; equal ids have equal keys."""
    # Integers and times have unique keys. Other ids are hashed as text: among `MAX_IDS` texts, two
    # share a key in one of a million tables.
    kind = ids.type
    if pa.types.is_temporal(kind):
        ids = ids.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_integer(ids.type):
        return row_keys(0, ids.to_numpy(zero_copy_only=False))
    if not len(ids):
        return np.zeros(0, np.uint64)
    texts = ids.cast(pa.large_binary() if _is_text(kind) else pa.large_string())
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset :][: len(texts) + 1]
    return text_keys(np.frombuffer(data or b"", np.uint8), ends)


def _is_text(kind: pa.DataType) -> bool:
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return texts or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
