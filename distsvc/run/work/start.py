"""Options of a run: its cluster, what it may replace or skip, and its display."""

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class ClusterAddress:
    """The address of a Dask scheduler, or a file that the scheduler wrote.

    With `require_tls`, an address that is not ``tls://`` is refused.
    """

    scheduler: str | None = None
    scheduler_file: str | None = None
    require_tls: bool = False


@dataclass(frozen=True)
class Start:
    """Options of a run: whether it may replace a result, start over, or skip."""

    overwrite: bool = False  # replace another result at the output
    fresh: bool = False  # start over instead of resuming an interrupted run
    skip_missing: bool = False  # raise `SkippedError` for an input that is not ready yet
    skip_empty: bool = False  # raise `SkippedError` for an input without rows
    repeated_until: str = ""  # no warnings about nights up to this date: a backfill runs them again


class Display(NamedTuple):
    """The content of standard error: nothing, sentences, or lines of JSON.

    JSON has every event; text has every event only with `verbose`. A terminal also shows a
    progress bar.
    """

    quiet: bool = False
    verbose: bool = False
    log_format: Literal["text", "json"] = "text"


DEFAULT_ADDRESS, DEFAULT_START, DEFAULT_DISPLAY = ClusterAddress(), Start(), Display()
