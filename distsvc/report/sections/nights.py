"""What the page says of a run beside the one before it: checks, clusters, and drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from distsvc.report.content.night_parts import CheckPart
from distsvc.report.content.report import Report
from distsvc.report.formats import one_line
from distsvc.report.sections import drift, lineage
from distsvc.report.sections.drift import Drift
from distsvc.report.sections.lineage import Lineage

LONGEST_SENTENCE, LONGEST_NAME = 600, 300
STATES = ("failed", "warned", "not measured", "passed")


class CheckRow(NamedTuple):
    """A line of the table of checks; `words` hold what was found and the limit."""

    name: str
    state: str
    words: str


@dataclass(frozen=True)
class Section:
    """What the page shows of a run beside another; what has nothing to show is empty or None.

    Attributes
    ----------
    held : list of CheckRow
        The checks that hold the run back.
    checks : list of CheckRow
    lineage : Lineage or None
    drift : Drift or None

    """

    held: list[CheckRow]
    checks: list[CheckRow]
    lineage: Lineage | None
    drift: Drift | None


def section(report: Report, colours: Mapping[int, str]) -> Section | None:
    """Return what the page shows of a run beside another, or None where it says nothing of that.

    Parameters
    ----------
    report
        Its text is untrusted.
    colours
        The colour of each cluster's label.

    """
    if not (report.checks or report.lineage or report.drift or report.held):
        return None
    checks = [_check(check) for check in report.checks]
    return Section(
        held=[row for row in checks if row.state == "failed"] if report.held else [],
        checks=sorted(checks, key=lambda row: STATES.index(row.state)),
        lineage=lineage.section(report.lineage, colours) if report.lineage else None,
        drift=drift.section(report.drift) if report.drift else None,
    )


def _check(check: CheckPart) -> CheckRow:
    name = one_line(check.name, LONGEST_NAME)
    words = one_line(check.words, LONGEST_SENTENCE).removeprefix(f"{name}: ")
    return CheckRow(name, check.state, words)
