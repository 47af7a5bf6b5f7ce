"""The options of starting a run: where its cluster is, and what it may replace or skip."""

from __future__ import annotations

from dataclasses import dataclass


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


ANYWHERE, FIRST = ClusterAddress(), Start()
"""The default."""
