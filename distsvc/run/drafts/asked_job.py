"""The job that is asked for: that of a job file, the default one for a table, or given sections."""

from __future__ import annotations

import datetime
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from distsvc.errors.urls import bare_url, lake_url
from distsvc.job.config import Job, Sections
from distsvc.job.file import overridden, parse_job, read_job
from distsvc.storage.publishing.publication import Output
from distsvc.storage.tables.sources import SOURCES

OUTPUTS = "out"
"""The folder of what is published of tables that are given without a job file."""

_PARQUET = b"PAR1"


def asked_job(
    given: str | os.PathLike[str] | Mapping[str, Any],
    run_date: str | datetime.date | None = None,
    settings: Iterable[str] = (),
    overrides: Mapping[str, Any] | None = None,
) -> Job:
    """Return the job that is asked for, validated.

    `given` is a job file, a table, or sections as dictionaries, and `run_date` what ``{run_date}``
    stands for, today by default. It is overridden by `settings`, each ``section.key=value`` with a
    value in TOML, or else a string, and by `overrides`, values by the names of keys, such as
    ``model.seed``.

    `InputNotFoundError` where there is no such job file, `JobFileError` where a key is unknown,
    missing or has a value that is not allowed.
    """
    day = run_date.isoformat()[:10] if isinstance(run_date, datetime.date) else run_date
    source, content = "job", given
    if not isinstance(given, (str, os.PathLike, Mapping)):
        raise TypeError(
            "expected a job file or a table by its path, or the sections of a job as dictionaries, "
            f"found {type(given).__name__}"
        )
    if not isinstance(given, Mapping):
        source = os.fspath(given)
        content = default_job(source) if is_table(source) else read_job(source)
    sections = overridden(_plain(content), settings, _plain(overrides or {}))
    return parse_job(sections, bare_url(source), day)


def is_table(path: str) -> bool:
    """Return whether a path is that of a table, and not of a job file.

    A URL, a glob and a folder are tables; so is a file that is named like one or holds Parquet.
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
            return stream.read(len(_PARQUET)) == _PARQUET
    except (OSError, ValueError):
        return False


def with_free_output(job: Job) -> Job:
    """Return the job of a table with an output where no other job has published.

    Its own path is taken while nothing or the same job is published there, then NAME-2, NAME-3 and
    so on. So trying other options does not end in an error.
    """
    for output in Output(job.output.path).siblings():
        if output.manifest() is None or output.holds(job.digest()):
            break
    path = job.output.model_copy(update={"path": output.shown})
    return job.model_copy(update={"output": path})


def default_job(path: str, exclude: Sequence[str] = ()) -> Sections:
    """Return the sections of the default job for a table, into ``out/NAME``."""
    name = table_name(path)
    return {
        "job": {"name": name},
        "input": {"path": path} | ({"exclude": list(exclude)} if exclude else {}),
        "output": {"path": f"{OUTPUTS}/{name}"},
    }


def table_name(path: str) -> str:
    """Return what a table is called: its file or folder without suffixes, of a glob its folder."""
    lake = lake_url(path)
    if lake.kind:
        path = lake.path.rpartition("/metadata/")[0] or lake.path
    bare = path.partition("://")[2] or path
    parts = [part for part in PurePosixPath(bare).parts if not re.search(r"[*?\[{}]", part)]
    parts = [part for part in parts if part not in ("/", ".", "..")]
    if not parts:
        return PurePosixPath(os.path.abspath(bare.partition("*")[0] or ".")).name or "table"
    suffixes = sorted((s for source in SOURCES for s in source.suffixes), key=len, reverse=True)
    suffix = next((s for s in suffixes if parts[-1].lower().endswith(s)), "")
    return parts[-1][: len(parts[-1]) - len(suffix)] or "table"


def _plain(value: Any) -> Any:
    """Return what TOML could hold: paths as text, tuples as lists, NumPy's numbers as Python's."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
