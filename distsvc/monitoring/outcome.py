"""The outcome of a run, to be announced."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, cast

from distsvc.errors import CheckFailedError, InputNotFoundError, InputNotReadyError, TemporaryError
from distsvc.errors.faults import exit_code_and_message

if TYPE_CHECKING:
    from distsvc.report.content.report import Report


Reason = Literal["late", "missing", "temporary", "failure"]
"""Reason of a failure: an incomplete input ("late"), no input ("missing"), an error that may pass
("temporary"), or an error that a person has to mend ("failure")."""


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run."""

    exit_code: int
    error: str  # one line without secrets, or empty
    report: "Report | None"  # the report of a published or held result
    published: bool  # whether this run or an earlier one published the result
    ended: float  # Unix time
    seconds: float
    page: str = ""  # the page of a held result
    reason: Reason | None = None

    @classmethod
    def of(cls, error: BaseException | None, report: "Report | None", seconds: float) -> Self:
        """Return the outcome of a run that ended with an error or a report."""
        code, words = exit_code_and_message(error)
        held, page = None, ""
        if isinstance(error, CheckFailedError):
            held, page = cast("Report", error.report), error.page
        return cls(
            code, words, report or held, report is not None, time.time(), seconds,
            page=page, reason=_reason(error, code),
        )  # fmt: skip


def _reason(error: BaseException | None, code: int) -> Reason | None:
    if error is None or isinstance(error, CheckFailedError):
        return None
    if isinstance(error, InputNotReadyError):
        return "late"
    if isinstance(error, InputNotFoundError):
        return "missing"
    return "temporary" if code == TemporaryError.exit_code else "failure"
