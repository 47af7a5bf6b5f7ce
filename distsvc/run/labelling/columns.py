"""The published columns of a run: those of its rule, and those that its output asks for."""

from __future__ import annotations

from collections.abc import Sequence

from distsvc.errors import JobFileError
from distsvc.job.config import Job, OutputConfig
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.labelling.asked import AskedColumns
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.labelling.missing import MissingValues
from distsvc.run.labelling.reasons import Reasons
from distsvc.run.labelling.shares import Shares
from distsvc.run.learning.preparation import Preparation
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.plan import Plan
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.formats import output_format
from distsvc.storage.publishing.formats.columns import PUBLISHED_COLUMNS, PartWriter, meanings
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.features import Feature
from distsvc.storage.tables.opening import id_type

ROW = PUBLISHED_COLUMNS[0].name

ASKED: tuple[type[AskedColumns], ...] = (Reasons, Shares, MissingValues)
"""All columns that keys of ``[output]`` ask for."""


def asked_columns(
    labeller: Labeller,
    preparation: Preparation,
    features: Sequence[Feature],
    output: OutputConfig,
    reported: bool = True,
) -> list[AskedColumns]:
    """Begin the columns that an output asks for; if `reported`, those of the report, too."""
    given = output.asked()
    wanted = (of for of in ASKED if reported or any(given[key] for key in of.keys))
    return [of(labeller, preparation, features, output) for of in wanted]


def check_asked(rule: type[Rule], output: OutputConfig) -> None:
    """Raise JobFileError where an output asks for columns that a rule can't give."""
    for of in ASKED:
        of.check(rule, output)


def published_names(rule: type[Rule], output: OutputConfig) -> list[str]:
    """Return the published columns besides the row: the rule's, and those that are asked for."""
    given = output.asked()
    return [*rule.meanings, *(column.name for column in PUBLISHED_COLUMNS if given.get(column.key))]


def check_output(job: Job, table: Table, algorithm: AlgorithmJob) -> None:
    """Check, before anything is computed, that the output's format can hold what is published."""
    check_asked(algorithm.rules[0], job.output)
    names = published_names(algorithm.rules[0], job.output)
    if table.id in names:
        raise JobFileError(
            f"input.id = {table.id!r} is the name of a published column besides "
            f"({', '.join(names)}); rename it in the table, or leave input.id out"
        )
    output_format(job.output.format).check(table.id or ROW, id_type(table), names)


def new_part(plan: Plan, rule: type[Rule]) -> PartWriter:
    """Return an empty part of what is published of a table."""
    names = published_names(rule, plan.output)
    return PartWriter(plan.table.id or ROW, id_type(plan.table), names)


def schema(run: RunDirectory, rule: Rule) -> dict[str, str]:
    """Return the meaning of each column that a run publishes, labelled by a rule."""
    names = published_names(type(rule), run.plan.output)
    own = dict(rule.meanings)
    for of in ASKED:
        own |= of.meanings(type(rule))
    return meanings(run.plan.table.id or ROW, names, own)


def parts_place(run: RunDirectory) -> Store:
    """Return the place of all parts, which is one of the run's work if they are not published."""
    if output_format(run.plan.output.format).publishes_parts:
        return run.stored
    return run.work.below("parts")


def parts_folder(run: RunDirectory, of: str) -> str:
    """Return the folder in `parts_place` of parts labelled `of` a run: models share none."""
    return run.folder(f"{of}labels")
