"""Job files: reading them, overriding keys, dates, and errors that name the key at fault."""

from __future__ import annotations

import datetime
import difflib
import os
import re
import select
import stat
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from distsvc.config import MODELS, Job
from distsvc.errors import InputNotFoundError, JobFileError, shown

FILE_BYTES = 4 * 2**20
"""Most bytes of a job file."""

PATIENCE = 10
"""Seconds that a pipe given as job file may be silent."""

DEEPEST_KEY = 200
"""Most parts of a dotted key; reading one takes time with the square of their number."""

_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def load_job(path: str | Path, settings: tuple[str, ...] = (), run_date: str | None = None) -> Job:
    """Read a job file.

    Parameters
    ----------
    path
        The TOML file.
    settings
        ``section.key=value`` strings that override the file; a value is TOML, or else a string.
    run_date
        ``YYYY-MM-DD``; stands for ``{run_date}`` in ``input.path`` and ``output.path``.
        Today when not given.

    Raises
    ------
    InputNotFoundError
        There is no such file.
    JobFileError
        The file is not TOML, or a key is unknown, missing or has a value that is not allowed.

    """
    content = _parse_toml(_read_text(path), str(path))
    for setting in settings:
        _override(content, setting)
    return parse_job(content, source=str(path), run_date=run_date)


def parse_job(content: dict[str, Any], source: str = "job", run_date: str | None = None) -> Job:
    """Validate a job given as a dictionary of sections; errors as in `load_job`."""
    _fill_in_date(content, source, run_date)
    try:
        return Job.model_validate(content)
    except ValidationError as error:
        raise JobFileError(f"{source}: " + "; ".join(_explain(error))) from None


def _read_text(path: str | Path) -> str:
    try:
        return _read_bytes(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputNotFoundError(f"job file {path} does not exist") from None
    except (OSError, ValueError) as error:  # ValueError: NUL in the path, or no UTF-8
        raise JobFileError(f"job file {path} can't be read: {error}") from None


def _read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a file or a pipe; ValueError for what is neither, silent or too big."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe may have no writer
    try:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFIFO):
            raise ValueError(f"expected a file or a pipe, found {_KINDS.get(kind, 'neither')}")
        waiting, content = select.poll(), b""
        waiting.register(descriptor, select.POLLIN)
        while len(content) <= FILE_BYTES:
            if not waiting.poll(1000 * PATIENCE):
                raise ValueError(f"nothing was written to the pipe for {PATIENCE} s")
            more = os.read(descriptor, 2**20)
            if not more:
                return content
            content += more
        raise ValueError(f"expected at most {FILE_BYTES} bytes, found more")
    finally:
        os.close(descriptor)


def _parse_toml(text: str, source: str) -> dict[str, Any]:
    """Return the content of TOML; JobFileError where there is none, or numbers are too long."""
    parts = 0
    for piece in text.split("."):
        parts = 0 if re.search(r"[=,\[\]{}\n]", piece) else parts + 1
        if parts >= DEEPEST_KEY:
            raise JobFileError(f"{source}: expected keys of at most {DEEPEST_KEY} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise JobFileError(f"{source} is not valid TOML: brackets are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise JobFileError(f"{source} is not valid TOML: {error}") from None
    except ValueError:  # Python's limit
        raise JobFileError(f"{source}: expected numbers of at most 4300 digits") from None


def _override(content: dict[str, Any], setting: str) -> None:
    name, equals, value = setting.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise JobFileError(f"--set expects section.key=value, found {setting!r}")
    table = content.setdefault(section, {})
    if not isinstance(table, dict):
        raise JobFileError(f"--set {name}: {section} is not a section of the job file")
    table[key] = _value(value)


def _value(text: str) -> Any:
    """Return the TOML value that a text is, or else the text."""
    try:
        content = _parse_toml(f"value = {text}", "--set")
    except JobFileError:
        return text
    return content["value"] if len(content) == 1 else text


def _fill_in_date(content: dict[str, Any], source: str, run_date: str | None) -> None:
    try:
        day = datetime.date.today() if run_date is None else datetime.date.fromisoformat(run_date)
        date = day.isoformat()
    except ValueError:
        date = ""
    if not date or run_date not in (None, date):
        raise JobFileError(f"--run-date expects YYYY-MM-DD, found {run_date!r}")
    for section in ("input", "output"):
        table = content.get(section)
        if isinstance(table, dict) and isinstance(table.get("path"), str):
            table["path"] = path = table["path"].replace("{run_date}", date)
            if "{run_date" in path:
                raise JobFileError(
                    f"{source}: {section}.path may hold {{run_date}} and no other form of it, "
                    f"found {path!r}"
                )


def _explain(error: ValidationError) -> list[str]:
    """Put the errors into words, one sentence for each field: a union has one for each member."""
    items: dict[tuple[Any, ...], list[Any]] = {}
    for item in error.errors():
        place = item["loc"]
        if place[:1] == ("model",) and len(place) > 1 and place[1] in MODELS:
            place = ("model", *place[2:])
        items.setdefault(place[:2], []).append(item)
    return [_explain_field(".".join(map(str, place)), of) for place, of in items.items()]


def _explain_field(name: str, items: list[Any]) -> str:
    first = items[0]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        key = first["loc"][-1]
        owners = [tag for tag, model in MODELS.items() if key in model.model_fields]
        if name == f"model.{key}" and owners:
            return (
                f"unknown key {name!r}; it belongs to algorithm = {' or '.join(map(repr, owners))}"
            )
        known = _known_keys(first["loc"][:-1])
        close = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
        return f"unknown key {name!r}; {hint}"
    if first["type"] == "union_tag_invalid":
        tags = " or ".join(map(repr, MODELS))
        return f"{name}.algorithm must be {tags}, found {shown(first['ctx']['tag'])}"
    if first["type"] == "missing":
        return f"{name} is required"
    if first["type"] == "value_error":
        joint = " " if message.startswith("must ") else ": "
        return f"{name}{joint}{message}" if name else message
    if first["type"] == "model_type":
        return f"{name} must be a section, found {shown(first['input'])}"
    items = [item for item in items if item["input"] is first["input"]]
    clauses = [re.sub(r"^Value error, must |^\w+ should |, found .*", "", i["msg"]) for i in items]
    wanted = " or ".join(dict.fromkeys(clauses))
    return f"{name} must {wanted}, found {shown(first['input'])}"


def _known_keys(place: tuple[Any, ...]) -> list[str]:
    fields = Job.model_fields
    if place and place[-1] in MODELS:
        return sorted(MODELS[place[-1]].model_fields)
    for part in place:
        annotation = fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        fields = annotation.model_fields
    return sorted(fields)
