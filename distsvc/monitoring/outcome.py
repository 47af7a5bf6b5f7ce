"""How a run ended, as others are told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from distsvc.errors import CheckFailedError, one_line
from distsvc.errors.faults import fault
from distsvc.errors.urls import masked

if TYPE_CHECKING:
    from distsvc.report.content.report import Report

DEFECT, INTERRUPTED = 1, 130


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    exit_code : int
        Of the process, if nothing else happens to it.
    error : str
        Why it failed, in one line and without secrets; nothing where it did not.
    report : Report or None
        Of the result, also where a check holds it back.
    published : bool
        Whether the result is published, now or before.
    ended : float
        Unix time.
    seconds : float
        That it took.

    """

    exit_code: int
    error: str
    report: Report | None
    published: bool
    ended: float
    seconds: float


def blame(error: BaseException | None) -> tuple[int, str]:
    """Return the exit code of what ended a run, and what it says; 0 and nothing for None."""
    if error is None:
        return 0, ""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else DEFECT
        return code, f"stopped, exit code {code}"
    if not isinstance(error, Exception):
        return INTERRUPTED, "interrupted"
    known = fault(error)
    if known is not None:
        return known.exit_code, str(known)
    return DEFECT, words(error)


def words(error: BaseException) -> str:
    """Return the name of an error and what it says, in one line and without secrets."""
    return one_line(masked(f"{type(error).__name__}: {error}"))


def held_report(error: BaseException | None) -> Report | None:
    """Return the report of the result that a check held back, if that was the error."""
    return cast("Report", error.report) if isinstance(error, CheckFailedError) else None
