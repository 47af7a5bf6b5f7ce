"""The facts of every data set, from ``catalogue.toml`` beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from distsvc.errors import DataError, InputNotFoundError


@dataclass(frozen=True)
class OpenML:
    """Where OpenML has a set, and how its table becomes ours.

    A column of names becomes one of numbers: by `order` where that names the column; else, where
    every name is a number, those numbers; else the names' places among those that occur, sorted. A
    missing name is the name ``?``.
    """

    id: int
    """OpenML's number of the data set, which fixes its version."""
    title: str
    """Its name there and version, to be read by people."""
    target: str = "default-target"
    """The column of the classes."""
    drop: tuple[str, ...] = ()
    """Columns that are not features."""
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the values 0, 1, ... by our name of the column, f0, f1, ..."""
    missing: Mapping[str, float] = field(default_factory=dict)
    """What stands for a missing number, by our name of the column."""
    classes: tuple[str, ...] = ()
    """Names of the classes 0, 1, ...; as numbers or sorted where none are given."""
    drop_classes: tuple[str, ...] = ()
    """Classes whose rows are left out."""
    doubt: str = ""
    """Why the table there may turn out to be another one."""


@dataclass(frozen=True)
class Dataset:
    """The facts of one data set."""

    name: str
    """The key in the catalogue."""
    group: str
    """The folder of its file: bsgd, imdh, shapes, shapes2, tables, outliers or linear."""
    rows: int
    features: int
    class_counts: tuple[int, ...]
    """Rows of the classes 0, 1, ..."""
    origin: str
    """Who made it, what the columns are, what was dropped, how names became numbers."""
    fingerprint: float | None = None
    """What `benchmarks.datasets.loading.fingerprint` of the rows is; None of svmlight text."""
    tolerance: float = 1e-9
    """How far the fingerprint may be off, relative to the sum of its terms' sizes."""
    class_names: tuple[str, ...] = ()
    """Names or original numbers of the classes 0, 1, ...; none where they only count."""
    splits: tuple[tuple[int, ...], ...] = ()
    """Rows of each class in the splits 0, 1, ...; none where the set is not split."""
    used_by: Mapping[str, str] = field(default_factory=dict)
    """Which tables of which papers print results on it."""
    paper_split: Mapping[str, int] = field(default_factory=dict)
    """The split that a paper uses, where it doesn't use all rows."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """What a paper says of the set that is not so."""
    stands_for: str = ""
    """The set of a paper that this one is another version of: never to be compared with it."""
    sklearn: str = ""
    """The loader in ``sklearn.datasets`` that has it."""
    openml: OpenML | None = None

    @property
    def file(self) -> str:
        """The file of the set within a folder of data, without what its packing adds."""
        ending = "svm" if self.group == "linear" else "parquet"
        return f"{self.group}/{self.name.rpartition('/')[2]}.{ending}"

    @property
    def source(self) -> str:
        """Where `load` finds the set without a folder."""
        if self.sklearn:
            return f"scikit-learn {self.sklearn}"
        return f"OpenML {self.openml.id}, {self.openml.title}" if self.openml else "--from only"

    def counts(self, split: int | None = None) -> tuple[int, ...]:
        """Return the rows of each class, in all or in one split.

        Raises
        ------
        DataError
            The set has no such split.

        """
        if split is None:
            return self.class_counts
        if not 0 <= split < len(self.splits):
            known = f"0 to {len(self.splits) - 1}" if self.splits else "none"
            raise DataError(f"{self.name}: expected a split of {known}, found {split}")
        return self.splits[split]


@cache
def catalogue() -> dict[str, Dataset]:
    """Return every set by its name.

    Names are those of the groups bsgd, imdh, shapes, shapes2 and tables, which are distinct; the
    sets of the other groups carry theirs, as in ``outliers/musk``, which is not ``musk``.
    """
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {name: _dataset(name, facts) for name, facts in tomllib.loads(text).items()}


def find(name: str) -> Dataset:
    """Return the set of a name, ``musk`` or ``bsgd/musk``.

    Raises
    ------
    InputNotFoundError
        There is none; similar names are told.

    """
    sets = catalogue()
    by_path = {f"{one.group}/{one.name.rpartition('/')[2]}": one for one in sets.values()}
    if name in sets or name in by_path:
        return sets.get(name) or by_path[name]
    tail = name.rpartition("/")[2]
    close = [key for key in by_path if key.endswith(f"/{tail}")]
    close = close or get_close_matches(name, sets, 3)
    hint = (
        f"did you mean {' or '.join(close)}?" if close else "see python -m benchmarks datasets list"
    )
    raise InputNotFoundError(f"no data set {name!r} in the catalogue; {hint}")


def _dataset(name: str, facts: dict[str, Any]) -> Dataset:
    """Return the facts of a table of the catalogue with lists as tuples."""
    frozen = {key: _frozen(value) for key, value in facts.items()}
    if "openml" in frozen:
        frozen["openml"] = OpenML(**frozen["openml"])
    unknown = set(frozen) - {one.name for one in fields(Dataset)}
    if unknown:
        raise DataError(f"catalogue.toml: {name} has unknown keys {', '.join(sorted(unknown))}")
    return Dataset(name=name, **frozen)


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return {key: _frozen(inner) for key, inner in value.items()}
    return value
