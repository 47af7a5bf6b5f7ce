"""The outcome of a run, as others are told of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

from distsvc.errors import (
    CheckFailedError,
    InputNotFoundError,
    InputNotReadyError,
    TemporaryError,
)
from distsvc.errors.faults import exit_code_and_message

if TYPE_CHECKING:
    from distsvc.report.content.report import Report


Reason = Literal["late", "missing", "temporary", "failure"]
"""Kinds of failures: the input is not complete yet, it does not exist, the same command may succeed
later for another reason, or somebody has to look."""


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run: the exit code of the process, if nothing else happens to it.

    `error` is why it failed, in one line and without secrets, or empty. `report` is that of the
    result, also where a check holds it back; `published` whether it is published, now or before.
    `ended` is Unix time, and `seconds` what the run took. `run_date` is the day that it was for,
    ``YYYY-MM-DD``, and `candidates` how many results are held back at its output, None where it is
    not known. `page` is that of a result which is held back, and `reason` the kind of a failure.
    """

    exit_code: int
    error: str
    report: Report | None
    published: bool
    ended: float
    seconds: float
    run_date: str | None = None
    candidates: int | None = None
    page: str = ""
    reason: Reason | None = None

    @classmethod
    def of(cls, error: BaseException | None, report: Report | None, seconds: float) -> RunOutcome:
        """Return how a run ended, with an error or a report of what is published."""
        code, words = exit_code_and_message(error)
        held, page = None, ""
        if isinstance(error, CheckFailedError):
            held, page = cast("Report", error.report), error.page
        found = cls(code, words, report or held, report is not None, time.time(), seconds)
        return replace(found, page=page, reason=_reason(error, code))


def _reason(error: BaseException | None, code: int) -> Reason | None:
    """Return the kind of a failure; None for other outcomes."""
    if error is None or isinstance(error, CheckFailedError):
        return None
    if isinstance(error, InputNotReadyError):
        return "late"
    if isinstance(error, InputNotFoundError):
        return "missing"
    return "temporary" if code == TemporaryError.exit_code else "failure"
