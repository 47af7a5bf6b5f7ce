"""The job to run, from a job file, from a table's path, or from a dictionary of sections."""

import datetime
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from distsvc.errors import InputNotFoundError, JobFileError
from distsvc.errors.urls import bare_url, is_in_memory, lake_url
from distsvc.job.config import Job, Sections
from distsvc.job.file import override, parse_job, read_job
from distsvc.storage.publishing.publication import Output
from distsvc.storage.tables.sources import SOURCES


def asked_job(
    given: str | os.PathLike[str] | Mapping[str, object],
    run_date: str | datetime.date | None = None,
    settings: Iterable[str] = (),
    overrides: Mapping[str, object] | None = None,
) -> Job:
    """Return the job that a job file, the path of a table, or a dictionary of sections describes.

    `settings` (``section.key=value``) and `overrides` (values by names such as ``model.seed``)
    replace the job's values. `run_date` is the value of ``{run_date}``, today by default. Errors
    are those of `distsvc.job.file.load_job`.
    """
    day = run_date.isoformat()[:10] if isinstance(run_date, datetime.date) else run_date
    source, content = "job", given
    if not isinstance(given, (str, os.PathLike, Mapping)):
        raise TypeError(
            "expected a job file or a table by its path, a table in memory such as a pandas or "
            "polars DataFrame, or the sections of a job as dictionaries, found "
            f"{type(given).__name__}"
        )
    if not isinstance(given, Mapping):
        source = os.fspath(given)
        content = default_job(source) if is_table(source) else _read_job(source)
    sections = override(_plain(content), settings, _plain(overrides or {}))
    name = "overrides" if is_in_memory(source) else bare_url(source)
    return parse_job(sections, name, day)


def _read_job(path: str) -> Mapping[str, object]:
    """Return the sections of a job file.

    If reading fails and the name does not end in ``.toml``, the error lists the suffixes of tables.
    """
    try:
        return read_job(path)
    except JobFileError as error:
        if path.endswith(".toml") or not os.path.isfile(path):
            raise
        names = ", ".join(f"*{suffix}" for source in SOURCES for suffix in source.suffixes[:1])
        raise JobFileError(
            f"{path} is neither a table ({names} or a folder of these) nor a job file: {error}"
        ) from None


@contextmanager
def hinting_at_date(job: Job, run_date: object) -> Iterator[None]:
    """Add a hint to `InputNotFoundError`: ``{run_date}`` in the path stands for today.

    The hint is added if no `run_date` is given.
    """
    try:
        yield
    except InputNotFoundError as error:
        if run_date is not None or ("input", "path") not in job.as_written:
            raise
        day = job.job.run_date
        words = f"{error}; {{run_date}} is today, {day}, unless --run-date gives another day"
        raise InputNotFoundError(words) from None


def is_table(path: str) -> bool:
    """Return True if a path names a table, not a job file.

    Tables are URLs, globs, folders, and files with a table's suffix or the content of Parquet.
    """
    if path.endswith(".toml"):
        return False
    suffixes = tuple(suffix for source in SOURCES for suffix in source.suffixes)
    if "://" in path or re.search(r"[*?\[]", path) or path.rstrip("/").lower().endswith(suffixes):
        return True
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            return stat.S_ISDIR(mode)
        with open(path, "rb") as stream:
            return stream.read(4) == b"PAR1"
    except (OSError, ValueError):
        return False


def with_free_output(job: Job) -> Job:
    """Return the job with an output folder that no other job uses.

    The folder is the first unused one of NAME, NAME-2, NAME-3 and so on.
    """
    for output in Output(job.output.path).siblings():
        if output.manifest() is None or output.holds(job.digest()):
            break
    path = job.output.model_copy(update={"path": output.shown})
    return job.model_copy(update={"output": path})


def default_job(path: str, exclude: Sequence[str] = ()) -> Sections:
    """Return the sections of the default job for a table, which writes to ``out/TABLE_NAME``."""
    name = table_name(path)
    return {
        "job": {"name": name},
        "input": {"path": path} | ({"exclude": list(exclude)} if exclude else {}),
        "output": {"path": f"out/{name}"},
    }


_DATE = r"\{run_date[^{}]*\}"
"""Pattern of all forms of ``{run_date}``."""


def table_name(path: str) -> str:
    """Return a short name for a table, such as "visits" for ``data/visits-{run_date}.csv``.

    A table given by a glob is named after its folder.
    """
    lake = lake_url(path)
    if lake.kind:
        path = lake.path.rpartition("/metadata/")[0] or lake.path
    bare = path.partition("://")[2] or path
    bare = re.sub(rf"(?<=\w)[-_. ]?{_DATE}|{_DATE}[-_ ](?=\w)", "", bare)
    parts = [part for part in PurePosixPath(bare).parts if not re.search(r"[*?\[{}]", part)]
    parts = [part for part in parts if part not in ("/", ".", "..")]
    if not parts:
        fixed = re.split(r"[*?\[{]", bare)[0] or "."
        return PurePosixPath(os.path.abspath(fixed)).name or "table"
    suffixes = sorted((s for source in SOURCES for s in source.suffixes), key=len, reverse=True)
    suffix = next((s for s in suffixes if parts[-1].lower().endswith(s)), "")
    return parts[-1][: len(parts[-1]) - len(suffix)] or "table"


def _plain(value: Any) -> Any:
    """Convert a value for TOML: paths to text, tuples to lists, NumPy numbers to Python's."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
