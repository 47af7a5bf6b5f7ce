"""The page's section on checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distsvc.report.content.comparison_parts import CheckPart
from distsvc.report.formats import one_line

LONGEST_SENTENCE, LONGEST_NAME = 600, 300
STATES = ("failed", "warned", "not measured", "passed")


class CheckRow(NamedTuple):
    """A line of the table of checks; `words` hold the measured value and the limit."""

    name: str
    state: str
    words: str


def section(checks: Sequence[CheckPart]) -> list[CheckRow]:
    """Return the table of checks, whose text is untrusted; failed ones first."""
    return [_check(check) for check in sorted(checks, key=lambda one: STATES.index(one.state))]


def _check(check: CheckPart) -> CheckRow:
    name = one_line(check.name, LONGEST_NAME)
    words = one_line(check.words, LONGEST_SENTENCE).removeprefix(f"{name}: ")
    return CheckRow(name, check.state, words)
