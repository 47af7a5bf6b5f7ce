"""A run is a directory of small, named, complete files; driver and workers share nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from distsvc.errors import DataError
from distsvc.storage.arrays import read_arrays, read_json, write_arrays, write_json
from distsvc.storage.tables import Block, Table, read_blocks


@dataclass(frozen=True)
class Plan:
    """What every task needs to know of the input: ``plan.json``."""

    table: Table
    partitions: list[tuple[int, int]]
    block_rows: int
    missing: str
    seed: int
    pilot_rows: int
    shift: np.ndarray

    def blocks(self, number: int, **columns: bool) -> Iterator[Block]:
        """Yield the blocks of a partition, less rows with missing values where the job drops them.

        Raises `DataError` for infinity, and for NaN where missing values are errors.
        """
        start, stop = self.partitions[number]
        for block in read_blocks(self.table, start, stop, self.block_rows, **columns):
            usable = np.isfinite(block.X) if self.missing == "error" else ~np.isinf(block.X)
            if not usable.all():
                row, column = np.unravel_index(np.argmin(usable), usable.shape)
                raise self.unusable(block, int(row), int(column))
            yield without_missing(block) if self.missing == "drop" else block

    def unusable(self, block: Block, row: int, column: int) -> DataError:
        """Return the error for a value of a block that can't be used."""
        value, name = block.X[row, column], self.table.columns[column]
        hint = "; preprocess.missing may be 'drop' or 'median'" if np.isnan(value) else ""
        return DataError(
            f"{self.table.source}: column {name!r}, row {block.rows[row]}: expected a finite "
            f"number whose square is one too, found {value}{hint}"
        )


def without_missing(block: Block) -> Block:
    """Return the rows of a block that have all their values."""
    kept = ~np.isnan(block.X).any(axis=1)
    if kept.all():
        return block
    places = np.flatnonzero(kept)
    ids = None if block.ids is None else block.ids.take(places)
    labels = None if block.labels is None else block.labels.take(places)
    return Block(block.rows[kept], block.X[kept], ids, labels)


class RunDirectory:
    """Reads and writes the files of a run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def write_plan(self, plan: Plan) -> None:
        """Write ``plan.json``."""
        content = vars(plan) | {"table": plan.table.to_dict(), "shift": plan.shift.tolist()}
        write_json(self.path / "plan.json", content)

    @property
    def plan(self) -> Plan:
        """The plan, read once per process."""
        return _plan(*_version(self.path / "plan.json"))

    def write(self, name: str, facts: dict[str, Any], **arrays: np.ndarray) -> None:
        """Write ``<name>.npz``: arrays, and `facts` as JSON; `name` may be in a folder."""
        path = self.path / f"{name}.npz"
        path.parent.mkdir(exist_ok=True)
        write_arrays(path, {"facts": np.array(json.dumps(facts)), **arrays})

    def read(self, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Read facts and arrays, from memory while the file does not change."""
        return _content(*_version(self.path / f"{name}.npz"))

    def results(self, phase: str, n: int) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        """Yield the results of a phase's tasks in the order of their numbers."""
        for number in range(n):
            arrays = read_arrays(self.path / f"{task_file(phase, number)}.npz")
            yield json.loads(str(arrays.pop("facts"))), arrays


def task_file(phase: str, number: int) -> str:
    """Return the name of a task's result."""
    return f"{phase}/{number:05d}"


def _version(path: Path) -> tuple[Path, int]:
    return path, path.stat().st_mtime_ns


@lru_cache(maxsize=4)
def _plan(path: Path, changed: int) -> Plan:
    content = read_json(path)
    content["table"] = Table.from_dict(content["table"])
    content["partitions"] = [(start, stop) for start, stop in content["partitions"]]
    content["shift"] = np.array(content["shift"], np.float64)
    return Plan(**content)


@lru_cache(maxsize=16)
def _content(path: Path, changed: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    arrays = read_arrays(path)
    return json.loads(str(arrays.pop("facts"))), arrays
