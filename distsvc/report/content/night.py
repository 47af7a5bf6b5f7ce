"""A night of a job: its numbers, and its comparison with the previous run in words."""

from collections.abc import Sequence

from pydantic import BaseModel

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import LineagePart
from distsvc.report.content.report import Report


class Night(BaseModel):
    """A night of a job: the run that is published at its output, and the output's candidates.

    Without a published run, `failed` has the checks of the newest candidate. Values that were not
    measured are None.
    """

    job: str = ""
    date: str = ""
    output: str
    run_id: str = ""  # empty if no published run can be read
    previous: str = ""  # id of the previous run
    created: str = ""
    rows: int | None = None
    clusters: int | None = None
    outside: float | None = None  # share of the rows outside every cluster
    moved: float | None = None  # share of the rows that changed their cluster
    ids_moved: float | None = None  # share of the row ids that changed their cluster
    new: list[int] = []  # ids of new clusters
    back: list[int] = []  # ids of clusters that returned
    gone: list[int] = []  # ids of clusters that ended
    drift: float | None = None  # largest population stability index of a column
    drifted: str = ""  # the column with this index
    failed: list[str] = []  # names of the checks that failed
    warned: list[str] = []  # names of the checks that only warned
    passed: int = 0  # number of checks that passed
    unmeasured: int = 0  # number of checks that were not measured
    seconds: float | None = None
    held: list[str] = []  # ids of candidates
    sizes: dict[int, int] = {}  # rows by cluster id
    names: dict[int, str] = {}  # names in the job by cluster id
    page_names: dict[int, str] = {}  # names on the night's page by cluster id
    odd: str = ""  # the reason why no published run can be read

    @property
    def checked(self) -> str:
        """The checks that failed or warned; if there are none, "3 passed, 1 not measured"."""
        names = [f"{name} failed" for name in self.failed]
        names += [f"{name} warned" for name in self.warned]
        return ", ".join(names) or _words_of_checks(self.passed, self.unmeasured)

    @property
    def came(self) -> str:
        """The ids of clusters that are new or came back, as text."""
        back = f"{some_ids(self.back)} back" if self.back else ""
        return ", ".join(filter(None, [some_ids(self.new), back]))

    @property
    def drift_and_column(self) -> str:
        """The largest drift and its column; empty if no drift was measured."""
        return "" if self.drift is None else f"{self.drift:.2f} {self.drifted}"


def words_of_night(report: Report) -> list[str]:
    """Return the comparison with the previous run, and the outcome of checks, in words."""
    found = [] if report.lineage is None else _words_of_ids(report.lineage)
    if report.drift and report.drift.columns:
        worst = report.drift.columns[0]
        found.append(f"drift {worst.index:.2f} in {worst.column}")
    states = [check.state for check in report.checks]
    if checks := _words_of_checks(states.count("passed"), states.count("not measured"), "check"):
        found.append(checks)
    for state in "warned", "failed":
        names = [check.name for check in report.checks if check.state == state]
        if names:
            found.append(f"{', '.join(names)} {state}")
    return found


def _words_of_checks(passed: int, unmeasured: int, noun: str = "") -> str:
    """Return a text such as "3 checks passed, 1 not measured" (if `noun` is "check")."""
    plural = "" if (passed or unmeasured) == 1 else "s"
    noun = f" {noun}{plural}" if noun else ""
    words = [f"{passed}{noun} passed"] if passed else []
    words += [f"{unmeasured}{'' if passed else noun} not measured"] if unmeasured else []
    return ", ".join(words)


def _words_of_ids(lineage: LineagePart) -> list[str]:
    if lineage.path is None:
        return ["ids from 0"]
    found = []
    moved = {"rows": lineage.moved if lineage.mode == "refit" else None, "ids": lineage.ids_moved}
    shares = [f"{share:.1%} of {what}" for what, share in moved.items() if share is not None]
    if shares:
        found.append(f"{' and '.join(shares)} moved")
    ended = [story for story in lineage.clusters if story.has_ended]
    new = [story for story in lineage.clusters if story.is_new]
    names: dict[str, Sequence[int | str]] = {
        "new": [f"{one.id} (from {one.others[0]})" if one.others else f"{one.id}" for one in new],
        "back": [story.id for story in lineage.clusters if story.event == "returned"],
        "split": [story.id for story in ended if story.event == "split"],
        "gone": [story.id for story in ended if story.event != "split"],
    }
    return found + [f"{word} {some_ids(ids)}" for word, ids in names.items() if ids]


def some_ids(ids: Sequence[int | str]) -> str:
    """Return the first few ids and the number of other ids, as in "0, 2 and 7 more"."""
    more = len(ids) - PAGE_LIMITS.history_ids
    shown = ", ".join(map(str, ids[: PAGE_LIMITS.history_ids]))
    return f"{shown} and {more:,} more" if more > 0 else shown
