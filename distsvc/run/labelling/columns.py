"""What a run publishes of every row: the columns of its rule, and where the parts are written."""

from __future__ import annotations

from distsvc.errors import JobFileError
from distsvc.job.config import Job, OutputConfig
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.labelling.shares import check_shares
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.plan import Plan
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.formats import output_format
from distsvc.storage.publishing.formats.columns import COLUMNS, PartWriter, meanings
from distsvc.storage.rows.blocks import Table
from distsvc.storage.tables.opening import id_type

ROW = COLUMNS[0].name


def published_names(rule: type[Rule], asked: OutputConfig | Plan) -> list[str]:
    """Return the columns that are published besides the row: the rule's, and what is asked for."""
    wanted = {"reasons": asked.reasons, "membership": asked.shares}
    wanted |= {"next": asked.top, "next_share": asked.top}
    return [*rule.meanings, *(name for name, of in wanted.items() if of)]


def check_output(job: Job, table: Table, algorithm: AlgorithmJob) -> None:
    """Check, before anything is computed, that the output's format can hold what is published."""
    check_shares(algorithm.rules[0], job.output)
    names = published_names(algorithm.rules[0], job.output)
    if table.id in names:
        raise JobFileError(
            f"input.id = {table.id!r} is the name of a published column besides "
            f"({', '.join(names)}); rename it in the table, or leave input.id out"
        )
    output_format(job.output.format).check(table.id or ROW, id_type(table), names)


def new_part(plan: Plan, rule: type[Rule]) -> PartWriter:
    """Return an empty part of what is published of a table."""
    names = published_names(rule, plan)
    return PartWriter(plan.table.id or ROW, id_type(plan.table), names)


def schema(run: RunDirectory, rule: Rule) -> dict[str, str]:
    """Return what the manifest says of every column that a run publishes, labelled by a rule."""
    names = published_names(type(rule), run.plan)
    own = dict(rule.meanings)
    if run.plan.shares:
        own["membership"] = f"float32, 0 to 1: the share of the row's own cluster: {rule.shared}"
    return meanings(run.plan.table.id or ROW, names, own)


def parts_place(run: RunDirectory) -> Store:
    """Return the place of the parts, which is one of the run's work if they are not published."""
    if output_format(run.plan.output_format).publishes_parts:
        return run.place("labels")
    return run.work.below("parts")
