"""A job file for a table that nobody has clustered yet, with what was seen of it as comments."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import tomli_w

from distsvc.errors import JobFileError, one_line
from distsvc.errors.urls import local_file
from distsvc.run.drafts.asked_job import default_job
from distsvc.run.drafts.looking import Look, look_at
from distsvc.storage.places.arrays import write_text
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import Vector
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
