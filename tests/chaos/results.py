"""What runs have done and what is kept of it: the results of tasks and steps, by name."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chaos.looking import RUN

RESULT = re.compile(rf"/({RUN.pattern})/results/([^.][^ ]*)\.npz$")

WRITTEN = ("os.rename", "PUT")
"""After which a file is there, on a disk and in a store."""
PASSING = ("checkpoints/",)
"""Where there is what a run removes once it has the next."""


@dataclass(frozen=True)
class Change:
    """A change of files that a driver or a worker was about to make.

    Its time is on the clock of `time.monotonic`, or from the beginning of an undisturbed run.
    """

    time: float
    event: str
    path: str

    @property
    def result(self) -> str | None:
        """The result that was there from then on, if it was one."""
        found = RESULT.search(self.path)
        known = found is not None and self.event in WRITTEN and is_result(found[2])
        return found[2] if known else None

    @property
    def is_plan(self) -> bool:
        """Whether the run's plan was there from then on."""
        return self.event in WRITTEN and self.path.endswith("/plan.json")

    def __str__(self) -> str:
        return f"{self.event} {self.path}"


def is_result(name: str) -> bool:
    """Return True if a file is a result that stays: not hidden, which is not whole."""
    return not name.startswith(PASSING) and "/." not in f"/{name}"


def logged(log: Path) -> list[Change]:
    """Return the changes in a log, in order."""
    if not log.exists():
        return []
    lines = (line.split(" ", 2) for line in log.read_text().splitlines())
    return [Change(float(time), event, path) for time, event, path in lines]


def made(changes: Iterable[Change]) -> list[str]:
    """Return the results that were made, in order; the last may have been about to be made."""
    return [change.result for change in changes if change.result is not None]


def kept(out: Path) -> set[str]:
    """Return the results of which the next start makes use: none where no task has left one."""
    for run in [path.parent for path in sorted((out / ".runs").glob("*/plan.json"))]:
        if run.name == published(out):
            continue  # it was killed when it had only to tidy up
        files = (run / "results").rglob("*.npz")
        names = {str(file.relative_to(run / "results"))[: -len(".npz")] for file in files}
        names = {name for name in names if is_result(name)}
        if any("/" in name for name in names):
            return names
    return set()


def published(out: Path) -> str | None:
    """Return the name of the run that is published."""
    try:
        return str(json.loads((out / "manifest.json").read_text())["run_id"])
    except (OSError, ValueError, KeyError):
        return None
