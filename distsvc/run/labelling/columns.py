"""The published columns of a run, and the files of its labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.errors import JobFileError
from distsvc.job.config import Job, OutputConfig
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import AlgorithmJob, Columns
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.labelling.optional_columns import (
    MissingValues,
    OptionalColumns,
    Reasons,
    Shares,
)
from distsvc.run.learning.preparation import Preparation
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.plan import Plan
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.formats import (
    PUBLISHED_COLUMNS,
    PartWriter,
    meanings,
    output_format,
    part_file,
)
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.features import Feature
from distsvc.storage.tables.opening import Block, id_type

ROW_NAME = PUBLISHED_COLUMNS[0].name

OPTIONAL_COLUMNS: tuple[type[OptionalColumns], ...] = (Reasons, Shares, MissingValues)

Entry = dict[str, int | str]
"""Rows, bytes, SHA-256 of a file of labels and, as ``stored``, its path in `parts_place`."""


def optional_columns(
    labeller: Labeller,
    preparation: Preparation,
    features: Sequence[Feature],
    output: OutputConfig,
    reported: bool = True,
) -> list[OptionalColumns]:
    """Return empty optional columns of an output, and if `reported`, of the report."""
    given = output.optional()
    wanted = (of for of in OPTIONAL_COLUMNS if reported or any(given[key] for key in of.keys))
    return [of(labeller, preparation, features, output) for of in wanted]


def check_optional(rule: type[Rule], output: OutputConfig) -> None:
    """Raise JobFileError if a rule can't give an optional column of an output."""
    for of in OPTIONAL_COLUMNS:
        of.check(rule, output)


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
            f"input.id = {table.id!r} is the name of a published column besides "
            f"({', '.join(names)}); rename it in the table, or leave input.id out"
        )
    output_format(job.output.format).check(table.id or ROW_NAME, id_type(table), names)


def schema(run: RunDirectory, rule: Rule) -> dict[str, str]:
    """Return the meaning of each published column."""
    names = published_names(type(rule), run.plan.output)
    own = dict(rule.meanings)
    for of in OPTIONAL_COLUMNS:
        own |= of.meanings(type(rule))
    return meanings(run.plan.table.id or ROW_NAME, names, own)


def parts_place(run: RunDirectory) -> Store:
    """Return the store of labelled parts: in the output if they are published, else in the work."""
    if output_format(run.plan.output.format).publishes_parts:
        return run.stored
    return run.work.below("parts")


def part_files(plan: Plan, number: int) -> list[str]:
    """Return the names of a partition's files of labels."""
    return [part_file(part) for part in plan.parts_of(number)]


class LabelledParts:
    """Writes the labelled parts of a partition, each when it is complete.

    Labels of two models never share a folder: `of` is the prefix of the labeller's results.
    """

    def __init__(self, run: RunDirectory, number: int, rule: type[Rule], of: str):
        self._plan, self._place, self._rule = run.plan, parts_place(run), rule
        self._folder = run.folder(f"{of}labels")
        self._waiting = list(self._plan.parts_of(number))
        self._entries: list[Entry] = []
        self._part = self._new_part()

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
        """Write the remaining parts; return the entries of all parts for the manifest."""
        while self._waiting:
            self._write()
        return self._entries

    def _new_part(self) -> PartWriter:
        table, names = self._plan.table, published_names(self._rule, self._plan.output)
        return PartWriter(table.id or ROW_NAME, id_type(table), names)

    def _write(self) -> None:
        name = f"{self._folder}/{part_file(self._waiting.pop(0))}"
        with self._place.created(name, again=False) as path:
            self._entries.append({"stored": name, **self._part.write(path)})
        self._part = self._new_part()
