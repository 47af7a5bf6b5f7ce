"""The comparison of a run with earlier runs: clusters, drift, checks, ids in other clusters."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distsvc.errors import DataError, InputNotFoundError
from distsvc.job.config import Job
from distsvc.job.parameters import Given
from distsvc.models.nights.drift import (
    MIN_PART_ROWS,
    MIN_PART_UNIT_DRIFT,
    ColumnCounts,
    UnitChange,
    column_drift,
    stability_index,
    unit_factors,
    unit_of_part,
)
from distsvc.models.rules.fields import Facts
from distsvc.report.content.parts import (
    CheckPart,
    ColumnDrift,
    DriftPart,
    LineagePart,
    Moves,
    ReferencePart,
    StoryPart,
)
from distsvc.report.formats import measured
from distsvc.run.labelling.columns import parts_place
from distsvc.run.labelling.counts import Counts, counts_ids, id_keys
from distsvc.run.labelling.labeller import COUNTED, PREVIOUS, REFERENCE
from distsvc.run.labelling.phase import Labelled, outlier_share
from distsvc.run.model.files import checked_model, read_labeller, read_model
from distsvc.run.nights.checks import RunMetrics, run_checks
from distsvc.run.nights.continuity import LINEAGE, UNCLAIMED, Previous
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.progress import Progress
from distsvc.storage.places.arrays import make_folder, write_whole
from distsvc.storage.places.process import scratch
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.formats import label_parts
from distsvc.storage.publishing.lineages import earlier_runs
from distsvc.storage.publishing.manifest import read_manifest
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import NEW, NOT_CHOSEN, truncated
from distsvc.storage.rows.features import Category, units_of
from distsvc.storage.rows.id_detection import is_named_like_code
from distsvc.storage.rows.numeric_text import is_text

MIN_FREE_BINS = 10
"""Minimum number of nonempty histogram bins, if two tables with equal histograms count as equal.

One bin of each column is not counted, since the other bins decide its number of rows.
"""

DECISION = "decision"
"""Name of the result with the decision to keep the previous model or refit."""


@dataclass(frozen=True)
class Comparison(RunMetrics):
    """Measured values of a run, the outcome of its checks, and warnings."""

    checks: Sequence[CheckPart] = ()
    notes: Sequence[str] = ()


def compare_and_check(
    run: RunDirectory,
    job: Job,
    previous: Previous | None,
    labelled: Labelled,
    facts: Facts,
    ids_moved: float | None = None,
    warnings: Sequence[str] = (),
) -> Comparison:
    """Compare a labelled run with the previous one, and do the job's checks.

    `ids_moved` is the share of the ids in both runs whose cluster changed, None if unknown.
    """
    lineage = _lineage(run, job, previous, labelled)
    if lineage is not None:
        more = {"followed": facts.get("followed"), "ids_moved": ids_moved}
        lineage = lineage.model_copy(update=more)
    drift, reference = drift_of(run, labelled), reference_drift(run, labelled)
    plan, nights, dropped, before, new = run.plan, job.checks.rows_against_last, None, [], None
    if plan.missing == "drop" and plan.table.where is None:
        dropped = 1.0 - labelled.counts.n_rows / plan.table.n_rows
    if previous is not None:
        earlier = earlier_runs(previous.manifest, 0 if nights is None else nights.nights - 1)
        before = [previous.manifest.rows, *(manifest.rows for _, manifest in earlier)]
        new = _unknown_columns(run, job)
    agreement = facts.get("agreement")
    found = Comparison(
        labelled,
        lineage,
        drift,
        agreement,
        dropped,
        rows_before=before,
        reference=reference,
        new_columns=new,
        has_ids=plan.table.id is not None,
    )
    checks = run_checks(job.checks, found, guarded=bool(job.continuity.previous))
    warned = [check.words for check in checks if check.state == "warned"]
    notes = [*warned, *warnings, *_lineage_notes(run, job, lineage)]
    if previous is not None and _has_equal_values(run, labelled):
        joined = ", or were ids joined to other rows" if ids_moved else ""
        notes.append(
            f"each column has the same values as in the previous run, at {previous.path}: was the "
            f"same table sent again{joined}?"
        )
    if labelled.ids is not None:
        notes += labelled.ids.notes(str(run.plan.table.id))
    way_back = previous.way_back(job.output.path) if previous is not None else ""
    if way_back and any(check.state == "failed" for check in checks):
        notes.append(way_back)
    parameters = [job.model.parameters()]
    if previous is not None and job.model.mode != "refit":
        parameters.append(previous.model.parameters)
    notes += outlier_notes(labelled.outlier_share, parameters)
    return replace(found, checks=checks, notes=notes)


def outlier_notes(
    share: float | None, parameters: Sequence[Given], rows: str = "the rows"
) -> list[str]:
    """Return a warning if a large share of the rows are outliers, unless `nu` allows this share.

    `parameters` are the parameters of the models that may label the rows. `rows` is the warning's
    term for the rows.
    """
    if share is None or share <= 0.25:
        return []
    wanted = max((given.get("nu") or 0.0 for given in parameters), default=0.0)
    if share <= wanted + 0.05 or any(given.get("C") is not None for given in parameters):
        return []
    return [
        f"{share:.1%} of {rows} lie outside, more than expected: the model may not suit the "
        "table; nu sets the expected share"
    ]


def _lineage_notes(run: RunDirectory, job: Job, lineage: LineagePart | None) -> list[str]:
    if lineage is None:
        return []
    notes, lacking = [], lineage.not_published
    if lineage.path is None:
        notes.append(f"nothing is published at {lacking} or before: cluster ids start at 0")
    elif lacking:
        notes.append(f"nothing is published at {lacking}: cluster ids continue from {lineage.path}")
    unclaimed = run.read(LINEAGE).facts.get(UNCLAIMED) if run.has(LINEAGE) else None
    if unclaimed:
        notes.append(
            "ids of new clusters could not be reserved, so another run that continues the same run "
            f"may use the same ids for other clusters: {unclaimed}"
        )
    extra = _unknown_columns(run, job)
    if extra:
        notes.append(
            f"columns ignored, because the previous model lacks them: {truncated(extra)}; to use "
            "these, name all features in input.columns, and set model.mode = 'refit'"
        )
    return notes


def _unknown_columns(run: RunDirectory, job: Job) -> list[str]:
    """Return the columns that could be features, but are unknown to the previous model."""
    left_out = run.plan.table.left_out
    named = job.input.columns or ()
    extra = [
        n for n, why in left_out.items() if (why.split(",")[0] if named else why) == NOT_CHOSEN
    ]
    extra = [name for name in extra if name in (named or extra) and not is_named_like_code(name)]
    extra = extra if job.model.mode != "refit" else []
    return extra + [name for name, why in left_out.items() if why == NEW]


def _lineage(
    run: RunDirectory, job: Job, previous: Previous | None, labelled: Labelled
) -> LineagePart | None:
    """Return the report's part on the clusters of the previous run.

    Return None if the job has no ``continuity.previous``.
    """
    if not job.continuity.previous:
        return None
    labeller, ids = labelled.labeller, labelled.labeller.ids.tolist()
    facts: Facts = {"path": None, "run_id": None, "mode": "refit", "rows": 0, "moved": None}
    facts |= {"not_published": job.continuity.previous[0]}
    before, now = dict[int, int](), _by_id(ids, labelled.counts.sizes)
    events: list[Facts] = [
        {"id": i, "event": "appeared", "jaccard": 0.0, "others": []} for i in ids
    ]
    if previous is not None:
        facts |= {"path": previous.path, "run_id": previous.run_id}
        facts |= {} if previous.nights else {"not_published": None}
        then = run.read(PREVIOUS + COUNTED).arrays["cluster_counts"]
        if not run.has(LINEAGE):
            before, facts["mode"], facts["rows"] = _by_id(ids, then), "assign", sum(now.values())
            events = [one | {"event": "survived", "jaccard": 1.0} for one in events]
        else:
            found, overlap = run.read(LINEAGE).facts, run.read(LINEAGE).arrays["overlap"]
            before = _by_id(found["before"], then)
            # Clusters without rows in both tables exist only in models.
            events = [e for e in found["clusters"] if before.get(e["id"]) or now.get(e["id"])]
            facts |= {"rows": found["rows"], "moved": found["moved"], "because": refit_because(run)}
            i, j = np.nonzero(overlap)
            pairs = np.asarray(found["before"], np.int64)[i].tolist(), labeller.ids[j].tolist()
            facts["moves"] = Moves(before=pairs[0], after=pairs[1], rows=overlap[i, j].tolist())
    stories = [
        StoryPart(**one, rows_before=before.get(one["id"], 0), rows_after=now.get(one["id"], 0))
        for one in events
    ]
    return LineagePart(**facts, next_id=labeller.next_id, clusters=stories)


def _by_id(ids: Sequence[int], sizes: np.ndarray) -> dict[int, int]:
    """Return the number of rows by cluster id; `sizes` (k, 2) counts rows inside and outside."""
    return dict(zip(ids, sizes.sum(axis=1).tolist(), strict=True))


def refit_because(run: RunDirectory) -> list[str]:
    """Return the limits on drift that the table exceeds, if the previous model was tried."""
    return list(run.read(DECISION).facts["because"]) if run.has(DECISION) else []


def drift_of(run: RunDirectory, labelled: Labelled) -> DriftPart | None:
    """Return the drift from the table of the previous model, if there is one."""
    counts, then = labelled.counts, labelled.before
    if then is None:
        return None
    before = run.read(PREVIOUS + COUNTED)
    scores = run.read(LINEAGE).arrays["scores"] if run.has(LINEAGE) else counts.histogram
    old = ColumnCounts(then.column_edges, before.arrays["column_counts"])
    shifted = stability_index(before.arrays["score_counts"][None], scores[None])[0]
    pilot = labelled.pilot.X[:, then.places(run.plan.table.columns)]
    factors = unit_factors(then.column_edges, pilot)
    columns = _column_drifts(run, then.columns, old, counts.columns[PREVIOUS], factors)
    return DriftPart(
        columns=_with_units_of_parts(columns, old, then.columns, pilot, labelled),
        score=float(shifted) if scores.sum() else None,
        score_rows=int(scores.sum()),
        outlier_share_before=outlier_share(then, before.arrays["cluster_counts"]),
        outlier_share_after=labelled.outlier_share,
    )


MAX_PARTS = 3
"""Maximum number of parts of the rows that are named as having another unit."""

ALL_ROWS = ""
"""Name of all rows, among the parts of the rows that may have another unit."""


def _with_units_of_parts(
    columns: Sequence[ColumnDrift],
    old: ColumnCounts,
    names: Sequence[str],
    pilot: np.ndarray,
    labelled: Labelled,
) -> list[ColumnDrift]:
    """Return the drifts, and add changes of unit in some of the rows, or to another temperature.

    A part of the rows has one value of a category: Fahrenheit where ``line=B``, for example. If
    several parts explain the drift, all are named, the best first. `old` counts the values of the
    columns `names` (d,) in the earlier table. `pilot` (m, d) has their values in this table.
    """
    counted = labelled.contents.features
    parts = [
        (f"{of.column}={name}", levels == code)
        for of in counted
        for levels in [of.levels_of(labelled.pilot.X)]
        for code, name in enumerate(of.names)
    ]
    parts = [(name, rows) for name, rows in parts if MIN_PART_ROWS <= rows.sum() < len(rows)]
    parts.append((ALL_ROWS, np.ones(len(pilot), bool)))
    categories, place = {of.column for of in counted}, {name: j for j, name in enumerate(names)}
    found = []
    for column in columns:
        j, changes = place[column.column], list[tuple[float, UnitChange, str]]()
        of_column = old.edges[j], old.counts[j], pilot[:, j]
        examined = column.factor is None and column.column not in categories
        if examined and column_drift(*of_column) >= MIN_PART_UNIT_DRIFT:
            for name, rows in parts:
                change = unit_of_part(*of_column, rows)
                # `unit_factors` has found the factors of all rows.
                if change is not None and (name != ALL_ROWS or change[1].offset):
                    changes.append((*change, name))
        if changes:
            changes.sort()  # parts of equal sizes may explain the drift equally well
            _, (factor, offset), part = changes[0]
            if part != ALL_ROWS:
                same = (one for one in changes if np.isclose(one[1].factor, factor, 0.05))
                alike = [name for *_, name in same if name != ALL_ROWS]
                part = " or ".join(alike[:MAX_PARTS])
            more = {"factor": factor, "offset": offset, "part": part}
            column = column.model_copy(update=more)
        found.append(column)
    return found


def _has_equal_values(run: RunDirectory, labelled: Labelled) -> bool:
    """Return True if every column has the same histogram in this run and in the previous run.

    Return False if few bins have rows, since equal histograms can then be chance.
    """
    if labelled.before is None:
        return False
    then, now = run.read(PREVIOUS + COUNTED).arrays, labelled.counts.columns[PREVIOUS]
    n_free = int((now.counts > 0).sum() - (now.counts > 0).any(axis=1).sum())
    return n_free >= MIN_FREE_BINS and np.array_equal(then["column_counts"], now.counts)


def keep_reference(
    path: str | None, run: RunDirectory, output: Store, columns: Sequence[str]
) -> None:
    """Store the histograms of the reference run at `path`, except if `path` is the run's output."""
    if path is None or run.has(REFERENCE) or store_of(path).address == output.address:
        return
    store = store_of(path)
    try:
        manifest = read_manifest(store)
    except InputNotFoundError:
        raise InputNotFoundError(
            f"continuity.reference: no run is published at {path}, so there is no table from which "
            "drift could be measured"
        ) from None
    folder = checked_model(store)
    _, labeller, arrays = read_labeller(read_model(folder), folder)
    common = [k for k, name in enumerate(labeller.columns) if name in columns]
    if not common:
        raise DataError(
            f"continuity.reference: the run at {path} has no column of this table; its columns are "
            f"{truncated([repr(name) for name in labeller.columns])}"
        )
    facts = {"path": path, "run_id": manifest.run_id, "run_date": manifest.run_date}
    counts = {name: arrays[name][common] for name in ("column_edges", "column_counts")}
    run.write(REFERENCE, Result(facts | {"columns": [labeller.columns[k] for k in common]}, counts))


def reference_drift(run: RunDirectory, labelled: Labelled) -> ReferencePart | None:
    """Return the drift from the table of the job's reference, if there is one."""
    if not run.has(REFERENCE):
        return None
    found = run.read(REFERENCE)
    old = ColumnCounts(found.arrays["column_edges"], found.arrays["column_counts"])
    columns = _column_drifts(run, found.facts["columns"], old, labelled.counts.columns[REFERENCE])
    named = {name: found.facts[name] for name in ("path", "run_id", "run_date")}
    return ReferencePart(columns=columns, **named)


def _column_drifts(
    run: RunDirectory,
    names: Sequence[str],
    old: ColumnCounts,
    now: ColumnCounts,
    factors: np.ndarray | None = None,
) -> list[ColumnDrift]:
    """Return the drift of every column, the largest first.

    `factors` (d,) are the ratios by which units have changed, such as 1000; NaN means no change.
    """
    if factors is None:
        factors = np.full(len(names), np.nan)
    indices = stability_index(old.counts, now.counts).tolist()
    changes = _changes(run.plan.table, names, old, now)
    missing = old.missing.tolist(), now.missing.tolist()
    rows = zip(names, indices, factors, *missing, changes, strict=True)
    columns = [
        ColumnDrift(
            column=name, index=index, missing_before=before, missing_after=after,
            factor=None if np.isnan(factor) else float(factor),
            change=change,
        )
        for name, index, factor, before, after, change in rows
    ]  # fmt: skip
    return sorted(columns, key=lambda column: -column.index)


def _changes(
    table: Table, names: Sequence[str], old: ColumnCounts, now: ColumnCounts
) -> Iterator[str]:
    """Yield for each column, in words, the values whose share of the rows changed most."""
    units, levels = units_of(table.features, table.types), dict[str, Sequence[str]]()
    buckets = dict[str, int]()  # codes of all values that are not known
    for feature, kind in zip(table.features, table.types, strict=True):
        levels[feature.column] = ("false", "true") if kind == "bool" else feature.levels
        if isinstance(feature, Category) and len(feature.levels) > len(feature.known):
            buckets[feature.column] = len(feature.known)
    for name, edges, *counts in zip(names, old.edges, old.counts, now.counts, strict=True):
        before, after = (rows / max(rows.sum(), 1) for rows in counts)
        # If changes are equal, as for the values of a flag: the value that became more frequent.
        k = int(np.maximum(1.001 * (after - before), before - after).argmax())
        shares = (
            f"in {100 * after[k]:.0f} % of the rows, {100 * before[k]:.0f} % in the earlier run"
        )
        low, high = np.concatenate([[-np.inf], edges, [np.inf, np.nan]])[k : k + 2].tolist()
        found = [text for code, text in enumerate(levels.get(name, ())) if low <= code < high]
        ends = [measured(end, units.get(name, "")) for end in (low, high) if np.isfinite(end)]
        new, bucket = table.new_values.get(name), buckets.get(name)
        if np.isnan(high):
            is_new = new and bucket is None  # without a bucket, new values count as missing
            found = [f"new, rare or missing values, such as {new}," if is_new else "missing"]
        elif new and bucket is not None and low <= bucket < high:
            found = [f"new or rare values, such as {new},"]
        elif not found and len(ends) == 1:
            found = [f"{ends[0]} or more" if np.isinf(high) else f"below {ends[0]}"]
        yield f"{truncated(found, 3) if found else ' to '.join(dict.fromkeys(ends))} {shares}"


MOVES_FILE = "moves.parquet"

BEFORE, NOW = "cluster_before", "cluster_now"
"""Columns with an id's cluster in the previous run and in this run; null if a run lacks the id."""

BUCKET_ROWS = 2**21
"""Mean number of rows of both runs in a bucket of hashed ids; buckets are compared in turn."""


def write_moves(
    run: RunDirectory, previous: Previous | None, counts: Counts, progress: Progress
) -> tuple[float | None, list[str]]:
    """Write ``moves.parquet``: ids whose published cluster differs from the previous run's.

    Return the share of the common ids whose cluster differs (None without common ids), and
    warnings. Missing ids, and ids that several rows share, are left out.
    """
    table = run.plan.table
    if previous is None or table.id is None or not counts_ids(table.type_of(table.id)):
        return None, []
    if table.id not in previous.manifest.columns:
        progress.event(
            "note",
            because=f"{MOVES_FILE} is not written: the labels of {previous.path} lack column "
            f"{table.id!r}, which has the ids",
        )
        return None, []
    place, name = parts_place(run), table.id
    now = (
        pq.ParquetFile(place.local(part["stored"])).read(columns=[name, "label"])
        for part in counts.parts.values()
    )
    then = label_parts(previous.manifest, store_of(previous.address), [name, "label"])
    n_buckets = -(-(counts.n_rows + previous.manifest.rows) // BUCKET_ROWS)
    kind, notes = table.type_of(name), list[str]()
    with progress.phase("moves"), scratch("moves") as folder:
        try:
            first_part = next(then)
            kind_before = first_part.schema.field(0).type
            if is_text(kind) != is_text(kind_before):
                notes.append(
                    f"ids in {name!r} are {'' if is_text(kind) else 'not '}text, unlike those in "
                    f"{previous.path}: ids match only if they are written alike; give the column "
                    "its previous type"
                )
            sides = [
                _split(tables, kind, n_buckets, folder / side)
                for side, tables in ((BEFORE, chain([first_part], then)), (NOW, now))
            ]
        except (DataError, pa.ArrowInvalid) as error:
            progress.event("note", because=f"{MOVES_FILE} is not written: {error}")
            return None, notes

        moves, unmoved = Counter(moved=0, new=0, gone=0), list[int]()

        def write(stream: BinaryIO) -> None:
            schema = pa.schema([(name, kind), (BEFORE, pa.int32()), (NOW, pa.int32())])
            with pq.ParquetWriter(stream, schema) as writer:
                for files in zip(*sides, strict=True):
                    one, n = _changes_of(*files)
                    one = one.rename_columns(schema.names).cast(schema)
                    writer.write_table(one)
                    unmoved.append(n)
                    new, gone = one[BEFORE].null_count, one[NOW].null_count
                    moves.update(moved=len(one) - new - gone, new=new, gone=gone)

        with run.place("report").created(MOVES_FILE) as path:
            write_whole(path, write)
    progress.event("moves", column=name, file=MOVES_FILE, **moves)
    n_both = moves["moved"] + sum(unmoved)
    checks = previous.manifest.checks
    had_common = any(one.name == "max_ids_moved" and one.found is not None for one in checks)
    if not n_both and moves["gone"] and had_common:
        notes.append(
            f"no id in {name!r} occurs in the previous run, at {previous.path}, though earlier "
            "runs had ids in common: are ids written differently now?"
        )
    return (moves["moved"] / n_both if n_both else None), notes


def _split(
    tables: Iterable[pa.Table], kind: pa.DataType, n_buckets: int, folder: Path
) -> list[Path]:
    """Write ids, cast to `kind`, and labels to a file for each bucket; return the files."""
    make_folder(folder)
    schema = pa.schema([("id", kind), ("label", pa.int32())])
    files = [folder / str(number) for number in range(n_buckets)]
    writers = [pa.ipc.new_file(pa.OSFile(str(file), "wb"), schema) for file in files]
    for found in tables:
        table = pa.table(list(found.columns), names=schema.names).cast(schema)
        for batch in table.filter(table["id"].is_valid()).combine_chunks().to_batches():
            buckets = (id_keys(batch.column(0)) % np.uint64(n_buckets)).astype(np.int64)
            for number in np.unique(buckets):
                writers[number].write_batch(batch.filter(pa.array(buckets == number)))
    for writer in writers:
        writer.close()
    return files


def _changes_of(before: Path, now: Path) -> tuple[pa.Table, int]:
    """Return a bucket's ids whose labels differ, and the number of ids with equal labels.

    The table of ids has both labels, and is ordered by id. Ids that several rows share are left
    out.
    """
    sides = []
    for file, name in (before, BEFORE), (now, NOW):
        with pa.memory_map(str(file)) as source:
            sides.append(pa.ipc.open_file(source).read_all().rename_columns(["id", name]))
    both = pa.concat_tables(sides, promote_options="default").group_by("id")
    found = both.aggregate([(name, of) for name in (BEFORE, NOW) for of in ("min", "count")])
    found = found.filter((pc.field(f"{BEFORE}_count") < 2) & (pc.field(f"{NOW}_count") < 2))
    labels = [f"{BEFORE}_min", f"{NOW}_min"]
    same = pc.fill_null(pc.equal(*(found[name] for name in labels)), False)
    moved = found.filter(pc.invert(same)).select(["id", *labels]).sort_by("id")
    return moved, len(found) - len(moved)
