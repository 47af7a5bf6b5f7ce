"""A night of a lineage: its figures, and in some words what it made of the run before it."""

from __future__ import annotations

from pydantic import BaseModel

from distsvc.report.content.comparison_parts import LineagePart
from distsvc.report.content.report import Report

MOST_IDS = 5


class Night(BaseModel):
    """A night of a job: what is published at its output, and what checks hold back there.

    Where nothing is published, or it can't be read, there is no `run_id`, and `odd` says why. What
    a run does not measure is None. `new`, `back` and `gone` are ids, `failed` and `warned` names of
    checks, `held` runs; `drift` is the largest population stability index, of `drifted`, and
    `sizes` are the rows of each cluster by id.
    """

    job: str = ""
    date: str = ""
    output: str
    run_id: str = ""
    previous: str = ""
    created: str = ""
    rows: int | None = None
    clusters: int | None = None
    outside: float | None = None
    moved: float | None = None
    new: list[int] = []
    back: list[int] = []
    gone: list[int] = []
    drift: float | None = None
    drifted: str = ""
    failed: list[str] = []
    warned: list[str] = []
    passed: int = 0
    seconds: float | None = None
    held: list[str] = []
    sizes: dict[int, int] = {}
    odd: str = ""

    @property
    def checked(self) -> str:
        """How the checks ended: which failed and warned, else how many passed."""
        said = [f"{name} failed" for name in self.failed]
        said += [f"{name} warned" for name in self.warned]
        return ", ".join(said) or (f"{self.passed} passed" if self.passed else "")

    @property
    def came(self) -> str:
        """The ids that are new, and those that are back."""
        back = f"{some_ids(self.back)} back" if self.back else ""
        return ", ".join(filter(None, [some_ids(self.new), back]))

    @property
    def drift_and_column(self) -> str:
        """The largest drift and its column, nothing where it is not measured."""
        return "" if self.drift is None else f"{self.drift:.2f} {self.drifted}"


def words_of_night(report: Report) -> list[str]:
    """Return in words how a run compares with the one before, and how its checks ended.

    Rows that moved, ids that are new, back, split or gone, the column that drifted most, and
    checks; nothing where there is no run before and no check.
    """
    found = [] if report.lineage is None else _words_of_ids(report.lineage)
    if report.drift and report.drift.columns:
        worst = report.drift.columns[0]
        found.append(f"drift {worst.index:.2f} in {worst.column}")
    for state in "passed", "warned", "failed":
        names = [check.name for check in report.checks if check.state == state]
        if names and state == "passed":
            found.append(f"{len(names)} check{'' if len(names) == 1 else 's'} passed")
        elif names:
            found.append(f"{', '.join(names)} {state}")
    return found


def _words_of_ids(lineage: LineagePart) -> list[str]:
    if lineage.path is None:
        return ["ids from 0"]
    found = []
    if lineage.mode == "refit" and lineage.moved is not None:
        found.append(f"{lineage.moved:.1%} moved")
    ended = [story for story in lineage.clusters if story.has_ended]
    names = {
        "new": [story.id for story in lineage.clusters if story.is_new],
        "back": [story.id for story in lineage.clusters if story.event == "returned"],
        "split": [story.id for story in ended if story.event == "split"],
        "gone": [story.id for story in ended if story.event != "split"],
    }
    return found + [f"{word} {some_ids(ids)}" for word, ids in names.items() if ids]


def some_ids(ids: list[int]) -> str:
    """Return ids in words: the first few, and how many more there are."""
    more = len(ids) - MOST_IDS
    shown = ", ".join(map(str, ids[:MOST_IDS]))
    return f"{shown} and {more:,} more" if more > 0 else shown
