"""Drafts of job files for new tables, with comments on their columns."""

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import tomli_w

from distsvc.errors import DataError, JobFileError, one_line
from distsvc.errors.urls import bare_url, local_file
from distsvc.job.dates import names_day
from distsvc.job.file import parse_job
from distsvc.models.automatic.engine import stays_as_stored
from distsvc.models.columns.described import ColumnDescription, described
from distsvc.models.columns.model import ColumnModel
from distsvc.models.rows.aside import ColumnEnds
from distsvc.models.rows.scaling import ColumnSums
from distsvc.run.drafts.asked_job import default_job, hinting_at_date
from distsvc.run.learning.survey import find_extreme_rows, too_few_rows
from distsvc.run.reporting.columns import plain_description
from distsvc.run.work.plan import with_categories
from distsvc.run.work.sentinels import sentinels_of
from distsvc.storage.places.arrays import write_content
from distsvc.storage.places.process import scratch
from distsvc.storage.rows.blocks import Block, Span, Table
from distsvc.storage.rows.columns import DATE, DATE_AND_TIME, PLAIN_TEXT, truncated
from distsvc.storage.rows.features import MOST_LEVELS, Vector, nominal_columns
from distsvc.storage.rows.id_detection import ID_NAME, ROW_NUMBER
from distsvc.storage.rows.usable import usable_rows
from distsvc.storage.tables.opening import open_table, read_blocks
from distsvc.storage.tables.sources import source_of
from distsvc.storage.tables.values import MANY_VALUES, TEXT_ID, add_counts

MAX_WRITTEN_NAMES = 100

_UNBROKEN = "\ue000"
"""Placeholder for a blank at which a line must not be wrapped."""

_LABEL = re.compile(r"^(labels?|class(es)?|target|species|category|y)$", re.IGNORECASE)


def write_draft(path: str, to: str, exclude: Sequence[str], run_date: str | None = None) -> None:
    """Write a draft to a new local file; `JobFileError` if the file exists or `to` is a URL."""
    file = local_file("--out", to)
    if file.exists():
        raise JobFileError(f"{to} already exists: remove it, or give another name by --out")
    write_content(file, draft(path, to, exclude, run_date))


def draft(
    path: str, to: str = "JOB.toml", exclude: Sequence[str] = (), run_date: str | None = None
) -> str:
    """Return a commented job file for a table; `to` is the name of the file in the comments.

    If the path has a placeholder for the date, the job continues the ids of the day before.
    """
    profile, job = profile_table(path, exclude, run_date), default_job(path)
    table, output, command = profile.table, job["output"]["path"], f"distsvc run {to}"
    nights = []
    if names_day(path):
        nights = ["[continuity]", _line("previous", f"{output}/{{run_date-1d}}"), "", "[checks]"]
        nights += [_hint("max_new_share", 0.2, "hold a night back if more of its clusters are new")]
        nights += [""]
        output, command = f"{output}/{{run_date}}", f"{command} --run-date DATE"
    lines = [
        *_comment(
            f"A job for {table.shown}: {table.n_rows:,} rows, read as {source_of(table).title}."
        ),
        *_comment(
            f"Run it by: {command}. Lines with # are remarks, or keys that are not set. "
            f"Columns were judged by name, by type and by the first {profile.n_rows:,} rows. "
            "The documentation explains every key."
        ),
        "",
        "[job]",
        _line("name", job["job"]["name"]),
        "",
        "[input]",
        _line("path", path),
        *([_line("exclude", list(exclude))] if exclude else []),
        *_columns(profile, is_dated=bool(nights)),
        "",
        "[preprocess]",
        *_preprocess(profile),
        "",
        *_kinds(profile),
        "",
        "[model]",
        _line("algorithm", "auto"),
        _hint("n_clusters", 5, "if the number is known"),
        _line("seed", 0),
        "",
        *nights,
        "[output]",
        _line("path", output),
    ]
    return "\n".join(lines) + "\n"


def _columns(profile: "TableProfile", is_dated: bool) -> list[str]:
    table = profile.table
    lines = _comment("Features by default; to choose others, set this key:")
    names = [_value(name).replace(" ", _UNBROKEN) for name in table.stored[:MAX_WRITTEN_NAMES]]
    columns = _comment(f"columns = [{', '.join(names)}]")
    lines += [line.replace(_UNBROKEN, " ") for line in columns]
    more = len(table.stored) - MAX_WRITTEN_NAMES
    lines += [f"# and {more:,} more"] if more > 0 else []
    if table.left_out:
        why = [f"{name} ({reason})" for name, reason in table.left_out.items()]
        lines += _comment(f"These are not features: {truncated(why)}.")
        dates = [n for n, why in table.left_out.items() if why in (DATE, DATE_AND_TIME)]
        if dates:
            lines += _comment(
                f"As features, {truncated(dates)} would be days or seconds since 1970. A duration "
                "is often more useful: add one to the table, such as the days since the last order."
            )
    if profile.id is not None and is_dated:
        lines.append(
            _line("id", profile.id, "identifies a row in all nights: for moves.parquet and SQL")
        )
    elif profile.id is not None:
        lines.append(_hint("id", profile.id, "looks like an id: copied to the labels"))
    remark = "looks like known classes: scores the result, not a feature"
    return lines + [_hint("classes", name, remark) for name in profile.labels[:3]]


def _preprocess(profile: "TableProfile") -> list[str]:
    vectors = profile.table.features and all(isinstance(f, Vector) for f in profile.table.features)
    lines = []
    if not vectors:
        lines.append(
            _hint(
                "scale",
                "standard",
                "or another scale; by default each column's density is modelled",
            )
        )
    else:
        remark = "or 'unit', which compares vectors by direction; 'auto' chooses"
        lines.append(_hint("scale", "auto", remark))
    if profile.incomplete:
        lines += _comment(
            f"Values are missing in {truncated(profile.incomplete)}. By default they stay missing:"
        )
        lines.append(_hint("missing", "median", "or 'drop', which leaves such rows out"))
    else:
        lines.append(_line("missing", "auto", "or 'error', 'drop', 'median'"))
    if profile.sentinels:
        values = [int(value) if value.is_integer() else value for value in profile.sentinels]
        names = sorted({name for found in profile.sentinels.values() for name in found})
        remark = f"if this stands for a missing value in {truncated(names, 3)}"
        lines.append(_hint("missing_values", values, remark))
    if profile.encodings:
        lines += _comment(
            "Text can be used as categories: 'onehot' for few values, 'frequency' for many:"
        )
        lines.append(_hint("encode", profile.encodings))
    return lines


def _kinds(profile: "TableProfile") -> list[str]:
    lines = ["[columns]"]
    lines += _comment(
        "The kind of each feature, judged by the first rows. To set a kind, write a line such as: "
        "visits = 'count'. Kinds are continuous, rounded, count, share, zero-inflated, ordinal, "
        "binary, category, ignore."
    )
    for name, one in list(profile.descriptions.items())[:MAX_WRITTEN_NAMES]:
        words = ", ".join(part for part in (one.kind, one.scale) if part)
        lines += _comment(f"{name}: {words}{f' ({one.reason})' if one.reason else ''}")
    more = len(profile.descriptions) - MAX_WRITTEN_NAMES
    return lines + ([f"# and {more:,} more"] if more > 0 else [])


def _line(key: str, value: object, remark: str = "") -> str:
    text = f"{key} = {_value(value)}"
    return f"{text:<33} # {one_line(remark)}" if remark else text


def _hint(key: str, value: object, remark: str = "") -> str:
    return f"# {_line(key, value, remark)}"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(k)} = {_value(v)}" for k, v in value.items()) + " }"
    return tomli_w.dumps({"v": value}).removeprefix("v = ").rstrip("\n")


def _comment(text: str) -> list[str]:
    safe = _UNBROKEN.join(map(one_line, text.split(_UNBROKEN)))
    lines = textwrap.wrap(safe, 98, break_on_hyphens=False, break_long_words=False)
    return [f"# {line}" for line in lines]


@dataclass(frozen=True)
class TableProfile:
    """Properties of a table, found in its first `n_rows` rows."""

    table: Table
    n_rows: int
    descriptions: dict[str, ColumnDescription]  # by feature
    id: str | None  # a column that looks like an id
    labels: list[str]  # columns that look like known classes
    incomplete: list[str]  # columns with missing values
    sentinels: dict[float, list[str]]  # possible sentinels, with their columns
    encodings: dict[str, str]  # suitable encodings of text columns that can be categories


def profile_table(
    path: str, exclude: Sequence[str] = (), run_date: str | None = None
) -> TableProfile:
    """Return the profile of a table without the columns in `exclude`.

    `run_date` is the value of ``{run_date}`` in the path, today by default.
    """
    job = parse_job(default_job(path, exclude), bare_url(path), run_date)
    with scratch("staging") as staging, hinting_at_date(job, run_date):
        table = open_table(job.input, staging, mixed=job.is_mixed)
        n_rows = max(1, min(10_000, 2**24 // max(len(table.columns), 1)))
        table, _ = with_categories(table, [(0, min(n_rows, table.n_rows))])
        block = next(read_blocks(table, Span(0, table.n_rows, n_rows)))
        usable_rows(block, table.shown, table.features, job.missing, unit=False)
        if table.n_rows < 2:
            raise too_few_rows(table.n_rows)
        n_rows = len(block.X)
        labels = [n for n in [*table.stored, *table.left_out] if _are_classes(table, n, n_rows)]
        ids = [name for name in table.left_out if ID_NAME.search(name)]
        ids += [name for name, why in table.left_out.items() if why in (ROW_NUMBER, TEXT_ID)]
        descriptions = _descriptions(table, block)
        missing = {table.columns[k] for k in np.flatnonzero(np.isnan(block.X).any(axis=0))}
        incomplete = [f.column for f in table.features if not missing.isdisjoint(f.names)]
        texts = [n for n, why in table.left_out.items() if why in (PLAIN_TEXT, MANY_VALUES)]
        texts = [name for name in texts if name not in (*ids, *labels)][:5]
        counts = {name: _n_values(table, name, n_rows) for name in texts}
        encodings = {
            name: "onehot" if n <= MOST_LEVELS else "frequency"
            for name, n in counts.items()
            if n >= 2 and _repeats(n, n_rows)
        }
        sentinels: dict[float, list[str]] = {}
        for k, one in sentinels_of(block.X.astype(np.float64), table.features):
            sentinels.setdefault(one.value, []).append(table.columns[k])
        return TableProfile(
            table=table,
            n_rows=n_rows,
            descriptions=descriptions,
            id=next(iter(ids), None),
            labels=labels,
            incomplete=incomplete,
            sentinels=dict(sorted(sentinels.items())),
            encodings=encodings,
        )


def _descriptions(table: Table, block: Block) -> dict[str, ColumnDescription]:
    """Return the kind and scale that a run on these rows would choose for each feature."""
    X, nominal = block.X.astype(np.float64), nominal_columns(table.features)
    names = [feature.column for feature in table.features]
    if any(isinstance(f, Vector) for f in table.features) or stays_as_stored(X, nominal):
        plain = [plain_description(f, "standard", "") for f in table.features]
        return dict(zip(names, plain, strict=True))
    ends = ColumnEnds.empty(X.shape[1])
    ColumnSums.empty(np.zeros(X.shape[1])).add(X, np.arange(len(X)), ends)
    X = np.delete(X, [far.row for far in find_extreme_rows(ends, X)], axis=0)
    return dict(zip(names, described(ColumnModel.of(X, nominal), names), strict=True))


def _are_classes(table: Table, name: str, n_rows: int) -> bool:
    """Return True if a column is named like known classes, as ``label`` is, and has few values."""
    if not _LABEL.search(name):
        return False
    if not source_of(table).states_width:  # svmlight text, whose only other column is the label
        return True
    n_values = _n_values(table, name, n_rows)
    return 1 <= n_values <= 100 and _repeats(n_values, n_rows)


def _repeats(n_values: int, n_rows: int) -> bool:
    """Return True if a value occurs twice or more on average, or if there are too few rows."""
    return n_rows < 20 or 2 * n_values <= n_rows


def _n_values(table: Table, name: str, n_rows: int) -> int:
    """Return the number of values of a column in the first rows; 0 if it can't be counted."""
    counts = {name: Counter[str]()}
    try:
        add_counts(counts, table, 0, n_rows)
    except (DataError, pa.ArrowException):
        return 0
    return len(counts[name])
