"""The report of a run: its content, its page, its table of clusters, and their files."""

import csv
import datetime
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc import __version__
from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.errors.extras import check_extra, is_installed
from distsvc.errors.urls import is_in_memory
from distsvc.job.config import Job
from distsvc.job.file import job_text
from distsvc.metrics import clustering_report, indices_from_contingency
from distsvc.models.rules.rule import Rule
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import LineagePart, NamedColumn, RowsPart, relabel
from distsvc.report.content.report import (
    ClusterRow,
    ForecastPart,
    IndexValue,
    InputPart,
    ModelPart,
    OutlierPart,
    Report,
    ScoreHistogram,
)
from distsvc.report.sections.names import cluster_names, column_names, renamed
from distsvc.run.algorithms.algorithm import Learned, Parts, PilotRows
from distsvc.run.labelling.columns import ROW_NAME, parts_place
from distsvc.run.labelling.counts import Counts
from distsvc.run.labelling.labeller import OWN, PREVIOUS
from distsvc.run.learning.preparation import Preparation
from distsvc.run.model.files import FILES, write_model
from distsvc.run.nights.comparison import Comparison
from distsvc.run.reporting.columns import doubt_of_functions, function_pairs, separating_columns
from distsvc.run.reporting.explaining import explanation_parts, labelled_pilot
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.progress import Progress, now_text
from distsvc.run.work.workers.lean import skip_docstrings
from distsvc.storage.places.arrays import json_bytes, read_json, write_content, write_json
from distsvc.storage.publishing.formats import parquet_bytes
from distsvc.storage.publishing.lineages import next_id_of
from distsvc.storage.publishing.manifest import PAGE, REPORT, STORED, UNNAMED, read_manifest
from distsvc.storage.publishing.publication import Output
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.features import Category, Feature, missing_values, names_of

CLUSTERS_FILE = "clusters.parquet"


def write_report(
    run: RunDirectory,
    job: Job,
    learned: Learned,
    comparison: Comparison,
    command: str,
    progress: Progress,
    forecast: ForecastPart | None = None,
) -> Report:
    """Write the model, the page and the tables of a run's report; return the report."""
    place = run.place("report")
    with progress.phase("report"):
        if learned.folder is None:
            write_model(run, job, learned, comparison.labelled)
        else:
            for name in FILES:
                with run.place("model").created(name) as path:
                    write_content(path, (learned.folder / name).read_bytes())
        report = make_report(run, job, learned, comparison, command)
        report = report.model_copy(update={"forecast": forecast})
        for warning in report.warnings:
            progress.event("warning", because=warning)
        if words := [f"{k} was {before!r}, is {now!r}" for k, before, now in renamed(report)]:
            progress.event("new names", clusters="; ".join(words))
        for name, part in {"lineage": comparison.lineage, "drift": comparison.drift}.items():
            if part is not None:
                with place.created(f"{name}.json") as path:
                    write_json(path, part.model_dump())
        if not is_installed("matplotlib"):
            progress.event("page without figures")
        with place.created(PAGE) as path:
            write_content(path, page_of(report.with_phases(progress.phases)))
    report = report.with_phases(progress.phases)
    with place.created(REPORT) as path:
        write_json(path, report.model_dump())
    with place.created(CLUSTERS_FILE) as path:
        write_content(path, clusters_file(report, job.job.run_date or report.finished[:10]))
    return report


def clusters_file(report: Report, night: str) -> bytes:
    """Return a Parquet file with the night, id, name and rows of each cluster."""
    rows, names = report.clusters, cluster_names(report)
    columns = {
        "night": pa.array([datetime.date.fromisoformat(night)] * len(rows), pa.date32()),
        "cluster": pa.array([row.label for row in rows], pa.int32()),
        "name": pa.array([names.get(row.label) or None for row in rows], pa.string()),
        "rows": pa.array([row.rows for row in rows], pa.int64()),
    }
    return parquet_bytes(pa.table(columns))


def read_report(published: Output) -> Report:
    """Return the report of a published run; `DataError` if it is missing or damaged."""
    path = published.file(REPORT)
    return Report.parsed(read_json(path), str(path))


def page_of(report: Report) -> str:
    """Return the HTML page of a report."""
    skip_docstrings()
    from distsvc.report.page import render_page  # matplotlib takes time to import

    return render_page(report)


def rename_clusters(output: Output, job: Job) -> Report:
    """Publish a run's page and tables again if the job renames clusters; return the report."""
    report = read_report(output)
    if report.names == job.names:
        return report
    with output.locked():
        report, manifest = read_report(output), read_manifest(output.store)
        lineage, labels = report.lineage, [cluster.label for cluster in report.clusters]
        next_id = lineage.next_id if lineage else max(labels, default=-1) + 1
        report = report.model_copy(update={"job_file": job_text(job)})
        n_later = next_id_of(output.store.address, manifest)
        report = _with_names(report, job.names, next_id, n_later)
        output.revise(
            {
                PAGE: page_of(report),
                REPORT: json_bytes(report.model_dump()),
                CLUSTERS_FILE: clusters_file(report, manifest.run_date),
            }
        )
    return report.model_copy(update={"was_renamed": True})


def rewrite_page(published: str) -> str:
    """Publish the page of a run again, drawn from its report; return the path of the page."""
    check_extra("matplotlib", "report", "a page with figures")
    output = Output(published)
    read_report(output)  # before anything is written
    with output.locked():
        output.revise({PAGE: page_of(read_report(output))})
    return f"{published.rstrip('/')}/{PAGE}"


MOSTLY_MISSING = 0.8
"""Share of a cluster's rows without a value above which the report warns about the cluster."""


MOSTLY_OUTSIDE = 0.5
"""Share of outliers in a cluster above which the report warns about the cluster."""


def make_report(
    run: RunDirectory, job: Job, learned: Learned, comparison: Comparison, command: str
) -> Report:
    """Return the report, with cluster ids as labels and no phases."""
    labelled = comparison.labelled
    counts, labeller, rule = labelled.counts, labelled.labeller, labelled.labeller.rule
    rows = labelled_pilot(run, rule, labelled.pilot)
    clustered = rule.words.has_clusters
    table, preparation = run.plan.table, Preparation.read(run)
    features, outliers = table.features, int(counts.sizes[:, 1].sum())
    separating = []
    if clustered:
        # A run that continues another one can't read a column as another kind.
        kinds = zip(table.features, table.types, strict=True)
        integers = {one.column for one, kind in kinds if "int" in kind}
        integers = set() if job.continuity.previous else integers
        separating = separating_columns(rows, features, labeller.ids, preparation, integers)
    parts = explanation_parts(run, job, rows, labelled)
    if command and job.as_written and "--run-date" not in command:
        command = f"{command} --run-date {job.job.run_date}"
    fitted = learned.facts
    if "n_clusters" in fitted:
        fitted = fitted | {"n_clusters": counts.n_clusters}
    notes = [*(one.note for one in separating), *comparison.notes]
    if clustered and rule.words.has_outliers:
        notes += notes_of_outside(counts.sizes, labeller.ids)
    report = Report(
        title=_title(job),
        distsvc_version=__version__,
        command=command,
        job_file=job_text(job),
        finished=now_text(),
        input=InputPart(
            path=job.input.model_dump(mode="json")["path"],
            format=table.layout.format,
            n_rows=counts.n_rows,
            n_rows_read=table.n_rows,
            n_features=len(table.columns),
            columns=list(table.columns),
            state=table.state.replace("=", " "),
            id=table.id,
            left_out=table.left_out,
            missing=_missing(table.features, counts),
        ),
        model=ModelPart(
            algorithm=learned.algorithm,
            parameters=dict(learned.parameters),
            fitted=fitted,
        ),
        clusters=_clusters(counts),
        outliers=OutlierPart(
            rows=outliers,
            share=outliers / counts.n_rows,
            defined=rule.words.has_outliers,
            only=not clustered,
            meaning=rule.words.meaning,
        ),
        score_histogram=_histogram(rule, labeller.score_edges, counts),
        # The extreme rows come last: their warning is long, and the same every night.
        warnings=sorted(
            dict.fromkeys([*run.plan.notes, *learned.warnings, *notes]),
            key=lambda note: note.startswith("extreme rows: "),
        ),
        doubts=[
            *(one.clause for one in separating),
            *_doubts_of_missing(parts, labeller.ids, missing_new_values(table)),
            *(doubt_of_functions(function_pairs(rows, features)) if counts.n_clusters > 1 else ()),
        ],
        sample=rows.sample,
        indices=_indices(rows, counts) if counts.classes and clustered else None,
        phases=[],
        **parts,
        **learned.parts(run, rows),
    )
    named = relabel(report, labeller.ids.tolist())
    checks, largest = list(comparison.checks), named.clusters[0].label
    held = any(check.state == "failed" for check in checks)
    words = ["distsvc", "publish", job.output.path, "--held", run.attempt]
    more: dict[str, object] = {
        "earlier_names": _earlier_names(comparison.lineage),
        "rows": rows_part(run, job, counts, largest, held),
        "lineage": comparison.lineage,
        "drift": comparison.drift,
        "reference": comparison.reference,
        "checks": checks,
        "held": held,
        "publish_command": shlex.join(words) if held else None,
    }
    return _with_names(named.model_copy(update=more), job.names, labeller.next_id)


def _with_names(report: Report, names: Mapping[str, str], next_id: int, n_later: int = 0) -> Report:
    """Return a copy of the report whose clusters have `names`, with warnings about these names.

    `names` are by id. Ids from `next_id` to `n_later` - 1 belong to clusters of later nights.
    """
    report = report.model_copy(update={"names": dict(names)})
    kept = [one for one in report.warnings if not one.startswith("names: ")]
    return report.model_copy(update={"warnings": [*kept, *_odd_names(report, next_id, n_later)]})


def _odd_names(report: Report, next_id: int, n_later: int) -> Iterator[str]:
    """Yield warnings about names of unknown or ended ids, and names that clusters share."""
    names, ids = report.names, [cluster.label for cluster in report.clusters]
    made = {name: one for one, name in cluster_names(report).items() if str(one) not in names}
    for number, name in names.items():
        if name in made:
            yield (
                f"names: cluster {number} is named {name!r}, and cluster {made[name]} gets the "
                "same name from its columns; give one of these clusters another name"
            )
        if int(number) >= max(next_id, n_later):
            yield (
                f"names: no cluster has or had the id {number}, named {name!r}; ids go from 0 to "
                f"{max(next_id, n_later) - 1}"
            )
        elif int(number) < next_id and int(number) not in ids:
            yield (
                f"names: no cluster of this table has the id {number}, named {name!r}; the page "
                "shows which ids have ended"
            )
        same = [one for one, other in names.items() if other == name]
        if same[0] == number and len(same) > 1:
            yield f"names: the ids {', '.join(same)} share the name {name!r}"


def _earlier_names(lineage: LineagePart | None) -> dict[str, list[NamedColumn]]:
    """Return the columns after which the previous run's clusters were named, by cluster id.

    The result is empty if the previous run's report can't be read.
    """
    if lineage is not None and lineage.path is not None:
        with suppress(DataError, InputNotFoundError, JobFileError):
            found = column_names(read_report(Output(lineage.path)))
            return {str(label): each for label, each in found.items() if each}
    return {}


def missing_new_values(table: Table) -> dict[str, str]:
    """Return new values of categories, for a message, by column, if they count as missing."""
    features = [one for one in table.features if isinstance(one, Category)]
    without_bucket = {one.column for one in features if len(one.levels) == len(one.known)}
    return {name: new for name, new in table.new_values.items() if name in without_bucket}


def _doubts_of_missing(parts: Parts, ids: np.ndarray, new_values: Mapping[str, str]) -> list[str]:
    """Return clauses on clusters with few values in a column that most other rows have.

    Columns whose missing values a category explains are left out. `new_values` are values that are
    unknown to the model, for a message, by column; they count as missing.
    """
    found = parts["columns"]
    sizes, doubts = np.array(found.size), []
    for column in found.columns:
        absent = np.array(column.absent if column.absent and not column.gap else 0 * sizes)
        others = (absent.sum() - absent) / np.maximum(sizes.sum() - sizes, 1)
        missing = absent / np.maximum(sizes, 1) > MOSTLY_MISSING
        for k in np.flatnonzero(missing & (others < 1 - MOSTLY_MISSING)):
            doubt = f"most rows of cluster {ids[found.label[k]]} have no {column.column!r}"
            if new := new_values.get(column.column):
                doubt += f", or a new value, such as {new}, which counts as missing"
            doubts.append(doubt)
    return doubts


def notes_of_outside(sizes: np.ndarray, ids: np.ndarray) -> list[str]:
    """Return warnings about clusters of mostly outliers; none if most rows are outliers.

    `sizes` (k, 2) counts each cluster's rows inside and outside; `ids` (k,) are the cluster ids.
    """
    rows, outside = sizes.sum(axis=1), sizes[:, 1]
    if outside.sum() > MOSTLY_OUTSIDE * rows.sum():
        return []
    return [
        f"{outside[c]:,} of the {rows[c]:,} rows of cluster {ids[c]} are outliers: if you "
        "remove outliers, you remove this cluster"
        for c in np.flatnonzero(outside > MOSTLY_OUTSIDE * rows)
    ]


def _title(job: Job) -> str:
    """Return the job's name and the output's name (often a date), without repetition."""
    names = [job.job.name, Path(job.output.path).name]
    if names[1].startswith(f"{names[0]}-"):
        names = names[1:]
    return (
        ", ".join(dict.fromkeys(name for name in names if name not in (UNNAMED, ""))) or "distsvc"
    )


def _missing(features: Sequence[Feature], counts: Counts) -> dict[str, int]:
    name = OWN if OWN in counts.columns else PREVIOUS
    missing = np.zeros(len(names_of(features)), np.int64)
    missing[counts.places[name]] = counts.columns[name].counts[:, -1]
    return missing_values(features, missing)


def _clusters(counts: Counts) -> list[ClusterRow]:
    rows_of = counts.sizes.sum(axis=1)
    return [
        ClusterRow(
            label=int(c),
            rows=int(rows_of[c]),
            share=float(rows_of[c] / counts.n_rows),
            outliers=int(counts.sizes[c, 1]),
        )
        for c in np.argsort(-rows_of, kind="stable")[: counts.n_clusters]
    ]


def _histogram(rule: Rule, edges: np.ndarray, counts: Counts) -> ScoreHistogram:
    """Return the histogram of scores.

    A single cluster without outliers has infinite scores. Then the histogram is empty.
    """
    words = rule.words
    endless = not words.has_outliers and rule.n_clusters == 1
    return ScoreHistogram(
        edges=edges.tolist(),
        counts=[] if endless else counts.histogram.tolist(),
        heading=words.heading,
        title=words.axis,
        boundary=words.boundary,
    )


def _indices(rows: PilotRows, counts: Counts) -> dict[str, IndexValue]:
    """Return validity indices of the clusters.

    Indices that compare clusters with known classes use all rows. Other indices use pilot rows.
    """
    table = np.column_stack(list(counts.classes.values()))
    indices = {
        name: IndexValue(value=value, rows=counts.n_rows)
        for name, value in indices_from_contingency(table).items()
        if name != "n_clusters"
    }
    X, labels = rows.X[:5_000], rows.labels[:5_000]  # some indices compare all pairs of rows
    for name, value in clustering_report(X, labels).items():
        if name != "n_clusters":
            known = float(value) if np.isfinite(value) else None
            indices[name] = IndexValue(value=known, rows=len(X))
    return indices


READERS = {"parquet": ("read_parquet", "**/*.parquet"), "csv": ("read_csv", "**/*.csv")}
"""DuckDB's function for each input format, and the pattern of the files in a folder."""


def rows_part(run: RunDirectory, job: Job, counts: Counts, label: int, held: bool) -> RowsPart:
    """Return queries for the rows of cluster `label`, and the labels of a small table as CSV.

    If the result is `held` back, there is also a query for its unpublished files.
    """
    table, output = run.plan.table, job.output.path.rstrip("/")
    name, held_query = table.id or ROW_NAME, ""
    if job.output.format == "parquet":
        query = _sql(["labels/*"], label, table.id, table.layout.format, job)
        if held:
            parts = sorted({str(Path(part["stored"]).parent) for part in counts.parts.values()})
            folders = [f"{STORED}/{run.name}/{folder}" for folder in parts]
            held_query = _sql(folders, label, table.id, table.layout.format, job)
    else:
        query = (
            f'distsvc.load({output!r}).labels(filter="label == {label}")  # or: "outlier == true"'
        )
    listed = _csv(run, name, counts) if counts.n_rows <= PAGE_LIMITS.listed_rows else ""
    return RowsPart(query=query, held_query=held_query, csv=listed)


def _sql(folders: Sequence[str], label: int, id: str | None, layout: str, job: Job) -> str:
    """Return the DuckDB query for rows of a cluster; the labels are in `folders` of the output.

    If possible, the query also joins the table's columns to the labels. This needs an id column
    and a table in one file or folder.
    """
    output = job.output.path.rstrip("/")
    names = ", ".join(_text(f"{output}/{folder}/*.parquet") for folder in folders)
    labels = f"read_parquet({names if len(folders) == 1 else f'[{names}]'})"
    where = f"WHERE l.label = {label} -- or: l.outlier\nORDER BY l.score"
    path = job.input.model_dump(mode="json")["path"]
    if is_in_memory(job.input.path[0]):
        id = None
    if id is None or layout not in READERS or not isinstance(path, str) or "***" in path:
        return f"SELECT l.* FROM {labels} l\n{where}"
    function, files = READERS[layout]
    if Path(path).is_dir():
        path = f"{path.rstrip('/')}/{files}"
    column = '"' + id.replace('"', '""') + '"'
    return (
        f"SELECT t.*, l.label, l.score, l.outlier\nFROM {labels} l\n"
        f"JOIN {function}({_text(path)}) t USING ({column})\n{where}"
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _csv(run: RunDirectory, name: str, counts: Counts) -> str:
    columns = [name, "label", "score", "outlier"]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for part in counts.parts.values():
        found = pq.ParquetFile(parts_place(run).local(part["stored"])).read(columns=columns)
        for row, label, score, outlier in zip(
            *(found[column].to_pylist() for column in columns), strict=True
        ):
            writer.writerow([row, label, f"{score:.6g}", str(outlier).lower()])
    return stream.getvalue()
