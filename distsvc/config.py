"""The job's typed configuration and its TOML file.

Every default of a job lives here, but for the parameters of an algorithm: those have one home, the
signature of its estimator, where users of scikit-learn look for them. A ``[model]`` key that is
not given is ``None`` here, which means the estimator's own default. Which keys there are, and what
they may be, is read from the table of `distsvc.parameters`.
"""

from __future__ import annotations

import datetime
import difflib
import hashlib
import json
import os
import re
import select
import stat
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    ValidationError,
    create_model,
    field_serializer,
    model_validator,
)
from pydantic_core.core_schema import CoreSchema, tagged_union_schema

from distsvc.errors import InputNotFoundError, JobFileError, shown
from distsvc.parameters import LAST_SEED, MOST, PARAMETERS, check_together
from distsvc.urls import shown_url, without_user

FILE_BYTES = 4 * 2**20
"""Most bytes of a job file."""

PATIENCE = 10
"""Seconds that a pipe given as job file may be silent."""

DEEPEST_KEY = 200
"""Most parts of a dotted key; reading one takes time with the square of their number."""

_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def _usable_path(path: str) -> str:
    """Return a path or URL that a file system can take; ValueError for any other."""
    if "\0" in path:
        raise ValueError(f"must be a path without NUL, found {path!r}")
    if "://" not in path:
        longest = max(len(os.fsencode(part)) for part in path.split("/"))
        if longest > 255 or len(os.fsencode(path)) > 4095:
            raise ValueError(
                f"must be a path of at most 4095 bytes, each part of at most 255, found {path!r}"
            )
    return path


class _Section(BaseModel):
    """Numbers are numbers: no text, and true and false are none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Text = Annotated[str, Field(min_length=1)]
PathOrUrl = Annotated[Text, AfterValidator(_usable_path)]


class InputConfig(_Section):
    """``[input]``: the table to read."""

    path: Annotated[PathOrUrl, Field(repr=False)]
    columns: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] | None = None
    id: Text | None = None
    label: Text | None = None
    where: str | None = None

    @field_serializer("path")
    def _shown_path(self, path: str) -> str:
        return shown_url(path)  # what is written of a job holds no secrets


class PreprocessConfig(_Section):
    """``[preprocess]``: what happens to a value before a learner sees it."""

    scale: Literal["standard", "minmax", "none"] = "standard"
    missing: Literal["error", "drop", "median"] = "error"


Rows = Annotated[int, Field(ge=1, le=MOST)]


class ModelConfig(_Section):
    """``[model]``: an algorithm of `distsvc.parameters`, its seed and its parameters."""

    algorithm: str
    seed: Annotated[int, Field(ge=0, le=LAST_SEED)] = 0

    def parameters(self) -> dict[str, Any]:
        """Return the estimator's parameters that the job gives, and the seed where it takes one."""
        given = self.model_dump(exclude={"algorithm", "seed"}, exclude_none=True)
        takes_seed = "random_state" in PARAMETERS[self.algorithm]
        return given | ({"random_state": self.seed} if takes_seed else {})

    @model_validator(mode="after")
    def _parameters_that_do_not_go_together(self) -> ModelConfig:
        check_together(self.algorithm, dict(self))
        return self


def _model_section(algorithm: str) -> type[ModelConfig]:
    """Make the ``[model]`` section of an algorithm: every key may be left out."""
    types = {name: one.job_type() for name, one in PARAMETERS[algorithm].items()}
    keys: dict[str, Any] = {name: (of | None, None) for name, of in types.items() if of}
    keys["algorithm"] = (Literal[algorithm], algorithm)
    return create_model(f"ModelConfig[{algorithm}]", __base__=ModelConfig, **keys)


MODELS = {algorithm: _model_section(algorithm) for algorithm in PARAMETERS}
"""The ``[model]`` section of every algorithm."""

DEFAULT_MODEL = MODELS["support-vector"].model_validate({})


def _algorithm(model: Any) -> Any:
    """Return the algorithm of a ``[model]`` section, given as a dictionary or validated."""
    if isinstance(model, dict):
        return model.get("algorithm", DEFAULT_MODEL.algorithm)
    return getattr(model, "algorithm", DEFAULT_MODEL.algorithm)


def _any_model(_: Any, schema: GetCoreSchemaHandler) -> CoreSchema:
    """Return the schema of ``[model]``: that of the algorithm which it names."""
    choices = {algorithm: schema(section) for algorithm, section in MODELS.items()}
    return tagged_union_schema(choices, _algorithm)


class ClusterConfig(_Section):
    """``[cluster]``: where the work is done and how it is cut; labels never depend on it."""

    workers: Annotated[int, Field(ge=0, le=10_000)] | None = None
    threads: Annotated[int, Field(ge=1, le=1_000)] = 1
    partition_rows: Rows = 1_000_000
    block_rows: Rows | None = None
    workdir: PathOrUrl | None = None


class OutputConfig(_Section):
    """``[output]``: where the run is published."""

    path: PathOrUrl
    format: str = "parquet"
    reasons: Annotated[int, Field(ge=0, le=20)] = 0


class Job(_Section):
    """A whole job file."""

    input: InputConfig
    output: OutputConfig
    preprocess: PreprocessConfig = PreprocessConfig()
    model: Annotated[ModelConfig, GetPydanticSchema(_any_model)] = DEFAULT_MODEL
    cluster: ClusterConfig = ClusterConfig()

    @model_validator(mode="after")
    def _sections_that_do_not_go_together(self) -> Job:
        algorithm, label = self.model.algorithm, self.input.label
        if label is not None and label in (self.input.columns or ()):
            raise ValueError(
                f"input.columns names {label!r}, the input.label: a label only scores clusters"
            )
        if algorithm == "linear-one-class" and self.preprocess.scale == "standard":
            raise ValueError(
                "preprocess.scale = 'standard' (the default) centres the columns, and a linear "
                "one-class SVM separates rows from the origin: give scale = 'none' or 'minmax', or "
                "algorithm = 'linear-svdd', which does not depend on the origin"
            )
        if self.output.reasons and not algorithm.startswith("linear-"):
            raise ValueError(
                f"output.reasons needs a linear algorithm, found algorithm = {algorithm!r}"
            )
        return self

    def digest(self) -> str:
        """Return a SHA-256 of what decides the result: all but cluster and output path.

        The input's password is not in it, since it is published and could be guessed from it.
        """
        content = self.model_dump(mode="json", exclude={"cluster": True, "output": {"path"}})
        content["input"]["path"] = without_user(self.input.path)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def with_key(job: Job, section: str, key: str, value: Any) -> Job:
    """Return a job with another value, which is not checked, of a key of a section."""
    part = getattr(job, section).model_copy(update={key: value})
    return job.model_copy(update={section: part})


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
