"""Reading of job files: overrides, dates, known keys, and errors that name the wrong key."""

import datetime
import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, get_args, get_origin

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from distsvc.errors import InputNotFoundError, JobFileError, shown
from distsvc.errors.urls import bare_url
from distsvc.job.config import (
    CLASSES_KEY,
    MODEL_SECTIONS,
    RENAMED,
    ColumnKind,
    Job,
    Section,
    Sections,
)
from distsvc.job.dates import fill_date, fill_each_date, names_day, parse_day

MAX_FILE_BYTES = 4 * 2**20
"""Maximum size of a job file."""

DATED = ("input", "continuity", "output")
"""Sections whose texts may contain ``{run_date}``."""

PREVIOUS_KEY = "continuity.previous"
EARLIER_NIGHTS = 31
"""Number of nights that ``continuity.previous = "out/{run_date}"`` stands for: the night of the run
and the nights before it."""

PLAIN_TYPES = {
    "a valid tuple": "a list",
    "a valid list": "a list",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "text",
    "a valid dictionary": "a section",
    "have at least 1 character": "not be empty",
    "have at least 1 item after validation, not 0": "not be empty",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}
"""Phrases of pydantic's messages, and the words that replace them."""

FREE_SECTIONS = ("columns", "names")
"""Sections whose keys are names of columns or ids of clusters."""


def load_job(path: str | Path, settings: tuple[str, ...] = (), run_date: str | None = None) -> Job:
    """Read a job file, and override its keys by `settings`, ``section.key=value`` strings.

    Each value is parsed as TOML. Text that is not valid TOML, such as ``fine``, stands for a
    string. `run_date` (YYYY-MM-DD, today by default) replaces
    ``{run_date}`` in ``[input]``, ``[continuity]`` and ``[output]`` (`distsvc.job.dates`).
    `InputNotFoundError` if the file does not exist, `JobFileError` if it is not TOML, or a key is
    unknown, missing or has a value that is not allowed.
    """
    content = override(read_job(path), settings)
    return parse_job(content, source=str(path), run_date=run_date)


def read_job(path: str | Path) -> Sections:
    """Return the sections of a job file; the default ``job.name`` is the file's stem."""
    name = bare_url(str(path))
    try:
        with open(path, "rb") as stream:
            found = stream.read(MAX_FILE_BYTES + 1)
        if len(found) > MAX_FILE_BYTES:
            raise ValueError(f"expected at most {MAX_FILE_BYTES} bytes, found more")
        text = found.decode("utf-8-sig")
    except FileNotFoundError:
        raise InputNotFoundError(f"job file {name} does not exist") from None
    except (OSError, ValueError) as error:  # ValueError: NUL in the path, or no UTF-8
        raise JobFileError(f"job file {name} can't be read: {error}") from None
    content = _parse_toml(text, str(path))
    job = content.get("job", {})
    if isinstance(job, dict):
        content["job"] = {"name": Path(path).stem or "job"} | job
    return content


def override(
    content: Sections, settings: Iterable[str] = (), values: Mapping[str, object] | None = None
) -> Sections:
    """Return sections with some values replaced; the result is not yet validated.

    `settings` are as in `load_job`; `values` has new values by key, such as ``model.seed``. If
    several settings give a list or a table to the same key, all entries are used. For any other
    key, the last setting counts.
    """
    content = {name: dict(of) if isinstance(of, dict) else of for name, of in content.items()}
    given: set[str] = set()
    for setting in settings:
        name, value, part = _setting(setting)
        section, _, key = name.partition(".")
        table = content.get(section)
        known = table.get(key) if isinstance(table, dict) else None
        if part:
            value = (known if isinstance(known, dict) else {}) | {part: value}
        elif name in given:
            value = _both(known, value)
        given.add(name)
        _put(content, name, value, "--set")
    for name, value in (values or {}).items():
        _put(content, name.strip(), value, "overrides")
    return content


def parse_job(content: Sections, source: str = "job", run_date: str | None = None) -> Job:
    """Validate the sections of a job; errors as in `load_job`."""
    given, content = content, _renamed(content, source)
    dated = _with_dates(content, source, run_date)
    table = given.get("input")
    old = isinstance(table, dict) and "label" in table
    classes = "input.label" if old else CLASSES_KEY
    try:
        job = Job.model_validate(dated)
    except ValidationError as error:
        words = "; ".join(_explain(error)).replace(CLASSES_KEY, classes)
        raise JobFileError(f"{source}: {words}") from None
    job.input._classes_key = classes
    for section in DATED:
        for key, value in content.get(section, {}).items():
            if value != dated[section][key] and [value] != dated[section][key]:
                job.as_written[section, key] = value
    return job


def _renamed(content: Sections, source: str) -> Sections:
    found = {name: dict(of) if isinstance(of, dict) else of for name, of in content.items()}
    for (section, old), name in RENAMED.items():
        table = found.get(section)
        if isinstance(table, dict) and old in table:
            if name in table:
                raise JobFileError(
                    f"{source}: {section}.{name} and {section}.{old}, its old name, are both given"
                )
            table[name] = table.pop(old)
    return found


def job_text(job: Job) -> str:
    """Return the text of a job file, with dates as they were written."""
    content = job.model_dump(mode="json", exclude_none=True)
    for (section, key), value in job.as_written.items():
        content[section][key] = value
    if job.as_written:
        content["job"].pop("run_date", None)
    return tomli_w.dumps(content)


def cluster_settings(settings: tuple[str, ...]) -> Section:
    """Return the section ``[cluster]`` from settings such as ``cluster.workers=4``.

    `JobFileError` for a setting of another section.
    """
    content = override({"cluster": {}}, settings)
    others = content.keys() - {"cluster"}
    if others:
        raise JobFileError(f"--set expects cluster.key=value here, found section {others.pop()!r}")
    return dict(content["cluster"])


def _parse_toml(text: str, source: str) -> Sections:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise JobFileError(f"{source} is not valid TOML: brackets are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise JobFileError(f"{source} is not valid TOML: {error}") from None
    except ValueError:  # Python's limit
        raise JobFileError(f"{source}: expected numbers of at most 4300 digits") from None


def _setting(setting: str) -> tuple[str, object, str]:
    """Split a setting into the key, the value, and the entry of a table that it sets, or "".

    ``preprocess.encode.city=onehot`` becomes ("preprocess.encode", "onehot", "city").
    """
    name, equals, text = setting.partition("=")
    name, value = name.strip(), _value(text)
    section, _, key = name.partition(".")
    if not (equals and section and key):
        raise JobFileError(f"--set expects section.key=value, found {setting!r}")
    if section not in FREE_SECTIONS and "." in key:
        key, _, part = key.partition(".")
        return f"{section}.{key}", value, part
    return name, value, ""


def _both(first: object, second: object) -> object:
    """Combine two values that settings give to the same key.

    Lists and tables are joined. Of any other values, the second is returned.
    """
    if isinstance(first, list) and isinstance(second, list):
        return [*first, *(one for one in second if one not in first)]
    if isinstance(first, dict) and isinstance(second, dict):
        return first | {
            key: _both(first[key], value) if key in first else value
            for key, value in second.items()
        }
    return second


def _put(content: Sections, name: str, value: object, by: str) -> None:
    """Set the key `name`, such as "model.seed", to a value.

    Error messages begin with `by`, the option that gives the value, such as "--set".
    """
    section, _, key = name.partition(".")
    if not (section and key):
        raise JobFileError(f"{by} expects section.key, found {name!r}")
    table = content.setdefault(section, {})
    if not isinstance(table, dict):
        raise JobFileError(f"{by} {name}: {section} is not a section of the job file")
    for (other, old), present in RENAMED.items():
        if other == section and key in (old, present):  # the same key under its other name
            table.pop(old, None)
            table.pop(present, None)
    table[key] = value


def _value(text: str) -> object:
    """Return a text parsed as a TOML value, or the text itself if it is not valid TOML."""
    try:
        content = _parse_toml(f"value = {text}", "--set")
    except JobFileError:
        return text
    return content["value"] if len(content) == 1 else text


def _with_dates(content: Sections, source: str, run_date: str | None) -> Sections:
    """Replace ``{run_date}`` in all strings of the sections; also store the date in ``[job]``."""
    content = dict(content)
    try:
        day = datetime.date.today() if run_date is None else parse_day(run_date)
    except ValueError:
        raise JobFileError(f"--run-date expects YYYY-MM-DD, found {run_date!r}") from None
    for section in DATED:
        table, dated = content.get(section), {}
        if not isinstance(table, dict):
            continue
        for key, value in table.items():
            try:
                dated[key] = _dated(f"{section}.{key}", value, day)
            except ValueError as error:
                raise JobFileError(f"{source}: {section}.{key} {error}") from None
        content[section] = dated
    job = content.get("job", {})
    if isinstance(job, dict):
        content["job"] = {"run_date": day.isoformat()} | job
    return content


def _dated(name: str, value: object, day: datetime.date) -> object:
    """Return the value of the key `name` with ``{run_date}`` replaced by a day.

    A text of ``continuity.previous`` becomes a list of nights. A text of ``input.path`` with a
    range of days becomes a list, too; in other keys, a range is a ValueError.
    """
    if isinstance(value, list):
        each = [_dated(name, one, day) for one in value]
        return [one for found in each for one in (found if isinstance(found, list) else [found])]
    if not isinstance(value, str) or not names_day(value):
        return [value] if isinstance(value, str) and name == PREVIOUS_KEY else value
    if name == PREVIOUS_KEY:
        nights = min(EARLIER_NIGHTS, day.toordinal())
        days = [day - datetime.timedelta(before) for before in range(nights)]
        earlier = (one for before in days for one in fill_each_date(value, before)[::-1])
        return list(dict.fromkeys(earlier))
    found = fill_each_date(value, day) if name == "input.path" else [fill_date(value, day)]
    return found[0] if len(found) == 1 else found


def _explain(error: ValidationError) -> list[str]:
    """Return one sentence for each key with a wrong value.

    If a value may have several types, pydantic reports an error for each type. The sentence
    combines these errors.
    """
    items: dict[tuple[int | str, ...], list[ErrorDetails]] = {}
    for item in error.errors():
        place = item["loc"]
        if place[:1] == ("model",) and len(place) > 1 and place[1] in MODEL_SECTIONS:
            place = ("model", *place[2:])
        items.setdefault(place[:2], []).append(item)
    return [_explain_field(".".join(map(str, place)), of) for place, of in items.items()]


def _explain_field(name: str, items: list[ErrorDetails]) -> str:
    first = items[0]
    message = first["msg"].removeprefix("Value error, ")
    within = first["loc"][:1] in (("columns",), ("checks",))
    if within and first["type"] in ("extra_forbidden", "missing"):
        name = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        key = first["loc"][-1]
        owners = [tag for tag, model in MODEL_SECTIONS.items() if key in model.model_fields]
        if name == f"model.{key}" and owners:
            return (
                f"unknown key {name!r}; it belongs to algorithm = {' or '.join(map(repr, owners))}"
            )
        known = _known_keys(first["loc"][:-1])
        close = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
        return f"unknown key {name!r}; {hint}"
    if first["type"] == "union_tag_invalid":
        tags = " or ".join(", ".join(map(repr, MODEL_SECTIONS)).rsplit(", ", 1))
        return f"{name}.algorithm must be {tags}, found {shown(first['ctx']['tag'])}"
    if first["type"] == "missing":
        return f"{name} is required"
    if first["type"] == "value_error":
        joint = " " if message.startswith("must ") else ": "
        return f"{name}{joint}{message}" if name else message
    if first["type"] in ("model_type", "model_attributes_type"):
        return f"{name} must be a section, found {shown(first['input'])}"
    items = [item for item in items if item["input"] is first["input"]]
    clauses = [re.sub(r"^Value error, must |^\w+ should |, found .*", "", i["msg"]) for i in items]
    wanted = " or ".join(dict.fromkeys(clauses)).replace(" or be ", " or ")
    wanted = re.sub("|".join(PLAIN_TYPES), lambda found: PLAIN_TYPES[found[0]], wanted)
    if isinstance(first["input"], str) and wanted.endswith("a list"):
        wanted += f", such as {shown([first['input']])}"
    if isinstance(first["input"], datetime.date):
        return f"{name} must {wanted.replace('text', 'text in quotes')}, found {first['input']}"
    return f"{name} must {wanted}, found {shown(first['input'])}"


def _known_keys(place: tuple[int | str, ...]) -> list[str]:
    if not place:
        return sorted(Job.model_fields)
    if str(place[-1]) in MODEL_SECTIONS:
        return sorted(MODEL_SECTIONS[str(place[-1])].model_fields)
    if place[0] == "columns":
        return sorted(ColumnKind.model_fields)
    keys = (key.partition(".") for key in known_keys()) if len(place) == 1 else ()
    return sorted(key for section, _, key in keys if section == place[0])


@cache
def known_keys() -> dict[str, tuple[str, ...]]:
    """Return all keys, such as "model.mode", each with the words that are allowed as its value."""
    keys: dict[str, tuple[str, ...]] = {}
    for section, field in Job.model_fields.items():
        if section in FREE_SECTIONS:
            continue
        models = [*MODEL_SECTIONS.values()] if section == "model" else [field.annotation]
        for model in models:
            assert isinstance(model, type)
            assert issubclass(model, BaseModel)
            for key, of in model.model_fields.items():
                found = keys.get(f"{section}.{key}", ())
                keys[f"{section}.{key}"] = tuple(dict.fromkeys((*found, *_words(of.annotation))))
    return keys | {"model.algorithm": tuple(MODEL_SECTIONS)}


def present_name(name: str) -> str:
    """Return the present name of a ``section.key``, which may be an old one."""
    section, _, key = name.partition(".")
    return f"{section}.{RENAMED.get((section, key), key)}"


def keys_like(option: str, least: float = 0.75) -> list[str]:
    """Return the keys with the name most similar to an option such as ``--gama``.

    No key is returned if the similarity is below `least`, a number from 0 to 1.
    """
    option = option.lstrip("-").replace("-", "_")
    names = [name for key in known_keys() for name in (key, key.partition(".")[2])]
    close = difflib.get_close_matches(option, names, 1, least)
    return [key for key in known_keys() if {key, key.partition(".")[2]} & {*close}]


def _words(annotation: object) -> tuple[str, ...]:
    """Return all texts that the `Literal`s in a type allow."""
    if get_origin(annotation) is Literal:
        return tuple(word for word in get_args(annotation) if isinstance(word, str))
    return tuple(word for part in get_args(annotation) for word in _words(part))
