"""The files of labels of a partition: one for each of its parts."""

from __future__ import annotations

import numpy as np

from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import Columns
from distsvc.run.labelling.columns import new_part, parts_folder, parts_place
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.plan import Plan
from distsvc.storage.publishing.formats.columns import part_file
from distsvc.storage.tables.opening import Block

Entry = dict[str, int | str]
"""Rows, bytes, SHA-256 of a file and, as ``stored``, its path in `parts_place`."""


def part_files(plan: Plan, number: int) -> list[str]:
    """Return the names of a partition's files of labels."""
    return [part_file(part) for part in plan.parts_of(number)]


class LabelledParts:
    """The parts of a partition, each written once it has its rows."""

    def __init__(self, run: RunDirectory, number: int, rule: type[Rule], of: str):
        self._plan, self._place, self._rule = run.plan, parts_place(run), rule
        self._folder = parts_folder(run, of)
        self._waiting = list(self._plan.parts_of(number))
        self._entries: list[Entry] = []
        self._part = new_part(self._plan, rule)

    def add(self, block: Block, columns: Columns) -> None:
        """Add the rows of the next block, with their published columns."""
        ids, first = block.rows if block.ids is None else block.ids, 0
        while self._waiting:
            _, stop = self._plan.parts[self._waiting[0]]
            last = int(np.searchsorted(block.rows, stop))
            if last > first or not self._part.n_rows:
                values = {name: column[first:last] for name, column in columns.items()}
                self._part.add(ids[first:last], values)
            if last == len(block.rows):  # the part may have more rows in the next block
                return
            self._write()
            first = last

    def written(self) -> list[Entry]:
        """Write the parts that have no more rows; return what the manifest says of each of all."""
        while self._waiting:
            self._write()
        return self._entries

    def _write(self) -> None:
        name = f"{self._folder}/{part_file(self._waiting.pop(0))}"
        with self._place.created(name, again=False) as path:
            self._entries.append({"stored": name, **self._part.write(path)})
        self._part = new_part(self._plan, self._rule)
