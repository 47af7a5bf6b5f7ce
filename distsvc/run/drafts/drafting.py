"""A job file for a table that nobody has clustered yet, with what was seen of it as comments."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import tomli_w

from distsvc.errors import DataError, JobFileError, one_line
from distsvc.errors.urls import local_file
from distsvc.job.config import Job
from distsvc.job.file import parse_job
from distsvc.models.automatic.engine import stays_as_stored
from distsvc.models.columns.described import ColumnDescription, described
from distsvc.models.columns.model import ColumnModel
from distsvc.run.drafts.asked_job import default_job
from distsvc.run.learning.survey import too_few_rows
from distsvc.run.reporting.columns import plain_description
from distsvc.run.work.plan import with_categories
from distsvc.storage.places.arrays import write_text
from distsvc.storage.places.scratch import scratch
from distsvc.storage.rows.blocks import Block, Table
from distsvc.storage.rows.categories import MOST_LEVELS
from distsvc.storage.rows.codes import ID_NAME, ROW_NUMBER
from distsvc.storage.rows.columns import some
from distsvc.storage.rows.features import Numeric, Vector, nominal_columns
from distsvc.storage.rows.usable import no_values, usable_rows
from distsvc.storage.tables.counting import ValueCounts
from distsvc.storage.tables.opening import open_table, read_blocks
from distsvc.storage.tables.sources import source_of

_WIDTH, _REMARK = 98, 34
"""Of a comment, and where it begins behind a key."""

_MOST = 100
"""Names of a list that are written."""

_UNBROKEN = "\ue000"
"""The character for a blank where a line must not end."""


def write_draft(path: str, to: str, exclude: Sequence[str] = ()) -> None:
    """Write a draft to a local file that is not there yet; errors as in `draft`.

    `JobFileError` where something is there, or for a URL; `OutputPermissionError` or
    `TemporaryError` where it can't be written.
    """
    file = local_file("--out", to)
    if file.exists():
        raise JobFileError(f"{to} is there already: remove it, or give another name by --out")
    write_text(file, draft(path, to, exclude))


def draft(path: str, to: str = "JOB.toml", exclude: Sequence[str] = ()) -> str:
    """Return a commented job file for a table: the default job, and what else may suit the table.

    `to` is what it will be called, and its job leaves out the columns to `exclude`. Errors as in
    `look_at`.
    """
    look, job = look_at(path, exclude), default_job(path)
    lines = [
        *_heading(look, to),
        "",
        "[job]",
        _line("name", job["job"]["name"]),
        "",
        "[input]",
        _line("path", path),
        *([_line("exclude", list(exclude))] if exclude else []),
        *_columns(look),
        "",
        "[preprocess]",
        *_preprocess(look),
        "",
        *_kinds(look),
        "",
        "[model]",
        _line("algorithm", "auto"),
        _hint("n_clusters", 5, "if the number is known"),
        _line("seed", 0),
        "",
        "[output]",
        _line("path", job["output"]["path"]),
    ]
    return "\n".join(lines) + "\n"


def _heading(look: Look, to: str) -> list[str]:
    table = look.table
    return [
        *_comment(
            f"A job for {table.shown}: {table.n_rows:,} rows, read as {source_of(table).title}."
        ),
        *_comment(
            f"Run it by: distsvc run {to}. What begins with # is not set, or a remark: columns "
            f"were judged by their names and types, and by the first {look.n_seen:,} rows. "
            "The documentation explains every key."
        ),
    ]


def _columns(look: Look) -> list[str]:
    table = look.table
    lines = _comment("These columns are the features, unless some are named:")
    lines += _hint_of_several("columns", table.stored)
    if table.left_out:
        why = [f"{name} ({reason})" for name, reason in table.left_out.items()]
        lines += _comment(f"These are none: {truncated(why)}.")
    if look.id is not None:
        lines.append(_hint("id", look.id, "looks like an id: copied to the labels"))
    remark = "looks like known classes: scores the result, and is no feature"
    return lines + [_hint("label", name, remark) for name in look.labels[:3]]


def _preprocess(look: Look) -> list[str]:
    vectors = look.table.features and all(isinstance(f, Vector) for f in look.table.features)
    lines = []
    if not vectors:
        lines.append(_hint("scale", "standard", "or another; by default each column is modelled"))
    else:
        remark = "or 'unit', which compares vectors by direction; 'auto' takes the clearer"
        lines.append(_hint("scale", "auto", remark))
    if look.gaps:
        lines += _comment(
            f"Values are missing in {truncated(look.gaps)}; they stay missing, unless:"
        )
        lines.append(_hint("missing", "median", "or 'drop', which leaves such rows out"))
    else:
        lines.append(_line("missing", "auto", "or 'error', 'drop', 'median'"))
    if look.logs:
        lines += _comment("A few values are larger than all others by far in these columns:")
        lines += _hint_of_several("log", look.logs)
    if look.texts:
        lines += _comment(
            "Text can be used as categories: 'onehot' for few values, 'frequency' for many:"
        )
        lines.append(_hint("encode", look.texts))
    return lines


def _kinds(look: Look) -> list[str]:
    """Return what each feature is, as comments below the section that can decide it."""
    lines = ["[columns]"]
    lines += _comment(
        "What each feature is, by these rows. To decide it, write a line such as: "
        "visits = 'count'. Kinds are continuous, count, share, ordinal, binary, category, ignore."
    )
    for name, one in list(look.described.items())[:_MOST]:
        told = ", ".join(part for part in (one.kind, one.scale) if part)
        lines += _comment(f"{name}: {told}{f' ({one.reason})' if one.reason else ''}")
    more = len(look.described) - _MOST
    return lines + ([f"# and {more:,} more"] if more > 0 else [])


def _line(key: str, value: Any, remark: str = "") -> str:
    """Return a line of TOML, with a remark behind it."""
    text = f"{key} = {_value(value)}"
    return f"{text:<{_REMARK - 1}} # {one_line(remark)}" if remark else text


def _hint(key: str, value: Any, remark: str = "") -> str:
    """Return a line that is a comment, and becomes one of TOML without its mark."""
    return f"# {_line(key, value, remark)}"


def _hint_of_several(key: str, names: Sequence[str]) -> list[str]:
    """Return a list as a comment, on as many lines as it needs; of a long one the first names."""
    each = ", ".join(_value(name).replace(" ", _UNBROKEN) for name in names[:_MOST])
    lines = [line.replace(_UNBROKEN, " ") for line in _comment(f"{key} = [{each}]")]
    more = len(names) - _MOST
    return lines + ([f"# and {more:,} more"] if more > 0 else [])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(k)} = {_value(v)}" for k, v in value.items()) + " }"
    return tomli_w.dumps({"v": value}).removeprefix("v = ").rstrip("\n")


def _comment(text: str) -> list[str]:
    safe = _UNBROKEN.join(map(one_line, text.split(_UNBROKEN)))
    lines = textwrap.wrap(safe, _WIDTH, break_on_hyphens=False, break_long_words=False)
    return [f"# {line}" for line in lines]


FIRST_ROWS = 10_000
"""Rows that are looked at."""

FIRST_VALUES = 2**24
"""Of wide tables fewer rows, with so many values in all."""

FEWEST_ROWS = 20
"""Of fewer rows, nothing is said of their values."""

HEAVY_TAIL, LARGE = 20.0, 100.0
"""A column of which a logarithm may tell more: how much longer the upper half of its range is than
the lower, without the hundredth at either end, and its largest value, at least."""

_LABEL = re.compile(r"^(labels?|class(es)?|target|species|category|y)$", re.IGNORECASE)
_TEXT = ("string", "large_string")

MOST_TEXTS = 5
"""Columns of text whose values are counted."""

MOST_CLASSES = 100
"""Different values of a column that looks like known classes."""

REPEATED = 2
"""Rows that a value of a category has at least, on average; a name has fewer."""


@dataclass(frozen=True)
class Look:
    """A table as it looks by the first `n_seen` rows, whose values were looked at.

    `described` says what each feature is, by its column. `id` is a column that looks like an id and
    is no feature, None if there is none, and `labels` are columns that look like known classes;
    `logs` columns, learned from as stored, whose logarithm may tell more; `gaps` those with missing
    values; `texts` columns of text that may be categories, with the way to encode them that suits
    the number of their values.
    """

    table: Table
    n_seen: int
    described: dict[str, ColumnDescription]
    id: str | None
    labels: list[str]
    logs: list[str]
    gaps: list[str]
    texts: dict[str, str]


def look_at(path: str, exclude: Sequence[str] = ()) -> Look:
    """Look at a table's columns, without those to `exclude`, and at its first rows.

    A table of a format without row ranges, such as CSV, is converted on the way.

    Errors as of `open_table`: the table is not there, or no job can read it.
    """
    with scratch("staging") as staging:
        job = parse_job(default_job(path, exclude))
        table = open_table(job.input, staging, mixed=job.is_mixed)
        rows = max(1, min(FIRST_ROWS, FIRST_VALUES // max(len(table.columns), 1)))
        table, _ = with_categories(table, [(0, min(rows, table.n_rows))])
        block = next(read_blocks(table, 0, table.n_rows, rows))
        _check_usable(job, table, block)
        return _seen(job, table, block)


def _check_usable(job: Job, table: Table, block: Block) -> None:
    """Raise what a run raises of values in the first rows; `DataError` as in `usable_rows`."""
    usable_rows(block, table.shown, table.features, job.missing, unit=False)
    if len(block.X) < table.n_rows:
        return
    if table.n_rows < 2:
        raise too_few_rows(table.n_rows)
    empty = np.flatnonzero(np.isnan(block.X).all(axis=0))
    if len(empty):
        raise no_values([table.columns[k] for k in empty])


def _described(job: Job, table: Table, block: Block) -> dict[str, ColumnDescription]:
    """Return what each feature is, by its column, as a run would decide by these rows."""
    X, nominal = block.X.astype(np.float64), nominal_columns(table.features)
    names = [feature.column for feature in table.features]
    if any(isinstance(f, Vector) for f in table.features) or stays_as_stored(X, nominal):
        plain = [plain_description(f, "standard", "") for f in table.features]
        return dict(zip(names, plain, strict=True))
    return dict(zip(names, described(ColumnModel.of(X, nominal), names), strict=True))


def _seen(job: Job, table: Table, block: Block) -> Look:
    stored = [*table.stored, *table.left_out]
    labels = [n for n in stored if _LABEL.search(n) and _are_classes(table, n, len(block.X))]
    ids = [name for name in table.left_out if ID_NAME.search(name)]
    ids += [name for name, why in table.left_out.items() if why == ROW_NUMBER]
    numbers = {
        f.column: table.columns.index(f.column) for f in table.features if isinstance(f, Numeric)
    }
    logs = []
    if len(block.X) >= FEWEST_ROWS:
        values = {name: block.X[:, k] for name, k in numbers.items()}
        logs = [n for n, x in values.items() if n not in labels and _has_a_heavy_tail(x)]
    with_gaps = {table.columns[k] for k in np.flatnonzero(np.isnan(block.X).any(axis=0))}
    gaps = [f.column for f in table.features if not with_gaps.isdisjoint(f.names)]
    texts = [n for n, why in table.left_out.items() if why in _TEXT and n not in (*ids, *labels)]
    ways = {name: _way(table, name, len(block.X)) for name in texts[:MOST_TEXTS]}
    categories = {name: way for name, way in ways.items() if way}
    kinds, found = _described(job, table, block), ids[0] if ids else None
    if any(one.kind != "number" for one in kinds.values()):  # columns are modelled
        logs = []
    return Look(table, len(block.X), kinds, found, labels, logs, gaps, categories)


def _way(table: Table, name: str, n_rows: int) -> str:
    """Return how the first rows of a text column are best encoded; nothing where it is no category.

    Those are texts that are long, the same in all rows, or another in nearly every row.
    """
    n_values = _n_values(table, name, n_rows)
    if n_values < 2 or (n_rows >= FEWEST_ROWS and n_values * REPEATED > n_rows):
        return ""
    return "onehot" if n_values <= MOST_LEVELS else "frequency"


def _are_classes(table: Table, name: str, n_rows: int) -> bool:
    """Return whether a column has few values in the first rows, each of several rows."""
    if not source_of(table).states_width:  # svmlight text, whose only other column is the label
        return True
    n_values = _n_values(table, name, n_rows)
    return 1 <= n_values <= MOST_CLASSES and (n_rows < FEWEST_ROWS or n_values * REPEATED <= n_rows)


def _n_values(table: Table, name: str, n_rows: int) -> int:
    """Return how many values a column has in the first rows; 0 where these can't be counted."""
    counted = ValueCounts(table, [name])
    try:
        counted.add(0, n_rows)
    except (DataError, pa.ArrowException):
        return 0
    return len(counted.counts[name])


def _has_a_heavy_tail(x: np.ndarray) -> bool:
    """Return whether a few of the values (n,), none below 0, are larger than all others by far."""
    x = x[np.isfinite(x)]
    if len(x) < FEWEST_ROWS or x.min() < 0.0 or x.max() < LARGE:
        return False
    low, middle, high = np.quantile(x, [0.01, 0.5, 0.99])
    return bool(high - middle > HEAVY_TAIL * (middle - low) and high > middle)
