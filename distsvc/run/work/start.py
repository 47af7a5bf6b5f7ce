"""The options of a run: where its cluster is, what it may replace or skip, what is shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class ClusterAddress:
    """The cluster: the address of a Dask scheduler, or a file that a scheduler wrote.

    `require_tls` is whether an address that is not ``tls://`` is refused.
    """

    scheduler: str | None = None
    scheduler_file: str | None = None
    require_tls: bool = False


@dataclass(frozen=True)
class Start:
    """The permissions of a run that is not the first.

    `overwrite`: whether something else that is published at the output is replaced. `fresh`:
    whether to start over where an earlier run was interrupted, which otherwise goes on.
    `skip_missing`: whether an input that is not there yet is to be skipped
    (`distsvc.errors.SkippedError`), and `skip_empty`: whether one that has no rows is.
    """

    overwrite: bool = False
    fresh: bool = False
    skip_missing: bool = False
    skip_empty: bool = False


class Display(NamedTuple):
    """What standard error shows of a run: sentences or lines of JSON, and a bar on a terminal.

    `quiet` shows neither events nor a bar. `verbose` shows every event with all its fields; without
    it, sentences are those that matter to who waits for the result. Lines of JSON are always all.
    """

    quiet: bool = False
    verbose: bool = False
    log_format: Literal["text", "json"] = "text"


ANYWHERE, FIRST, SHOWN = ClusterAddress(), Start(), Display()
"""The default."""
