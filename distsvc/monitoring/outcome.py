"""The outcome of a run, as others are told of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from distsvc.errors import CheckFailedError
from distsvc.errors.faults import blame

if TYPE_CHECKING:
    from distsvc.report.content.report import Report


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run: the exit code of the process, if nothing else happens to it.

    `error` is why it failed, in one line and without secrets, or empty. `report` is that of the
    result, also where a check holds it back; `published` whether it is published, now or before.
    `ended` is Unix time, and `seconds` what the run took. `run_date` is the day that it was for,
    ``YYYY-MM-DD``, and `candidates` how many results are held back at its output, None where it is
    not known.
    """

    exit_code: int
    error: str
    report: Report | None
    published: bool
    ended: float
    seconds: float
    run_date: str | None = None
    candidates: int | None = None

    @classmethod
    def of(cls, error: BaseException | None, report: Report | None, seconds: float) -> RunOutcome:
        """Return how a run ended, with an error or a report of what is published."""
        code, words = blame(error)
        held = cast("Report", error.report) if isinstance(error, CheckFailedError) else None
        return cls(code, words, report or held, report is not None, time.time(), seconds)
