"""Checkpoints: the state of a task or of a step of the driver that learns row after row.

After so many steps the state is the same whoever did them, so a checkpoint is a result like others,
``checkpoints/<task>/<steps>``: written once, whole or absent. What is learned does not depend on
when, or whether, there was one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from distsvc.errors import DataError
from distsvc.models.rows.checkpoints import Restore, State, T
from distsvc.run.work.directory import LostWorkError, Result, RunDirectory
from distsvc.run.work.shown.display import LOG

CHECKPOINTS = "checkpoints"

SECONDS = 45.0
"""Between two checkpoints: with the work under way and the writing, less than a minute is lost."""


class TaskCheckpoints:
    """The checkpoints of the task, or the driver's step, whose result will have a name."""

    def __init__(self, run: RunDirectory, name: str):
        self._run, self._name = run, name
        self._folder = f"{CHECKPOINTS}/{name}"
        self._since = time.monotonic()

    def last(self, restore: Restore[T]) -> T | None:
        """Return what `restore` makes of the last usable checkpoint, None where there is none.

        One that is damaged, another task's or, as `restore` finds, of another form is removed. One
        that can't be reached ends the task with a `TemporaryError`.
        """
        for name in reversed(self._run.names(self._folder)):
            try:
                found = self._run.load(name)
                if found.facts.get("of") != self._of(name):
                    raise DataError(f"{name}: expected a checkpoint {self._of(name)}")
                restored = restore(found.facts["state"], found.arrays)
            except (LostWorkError, DataError) as error:
                fields = {"checkpoint": name, "error": str(error)}
                LOG.warning("checkpoint passed over", extra={"fields": fields})
                self._run.remove(name)
            else:
                LOG.info("went on", extra={"fields": {"checkpoint": name}})
                return restored
        return None

    def keep(self, steps: int, state: Callable[[], State]) -> None:
        """Write ``state()`` if the last checkpoint, or the beginning, was `SECONDS` ago.

        Those after fewer steps are removed once it is there.
        """
        if time.monotonic() - self._since < SECONDS:
            return
        name = f"{self._folder}/{steps:012d}"
        facts, arrays = state()
        self._run.write(name, Result({"of": self._of(name), "state": facts}, arrays))
        for other in self._run.names(self._folder):
            if other < name:
                self._run.remove(other)
        self._since = time.monotonic()

    def remove(self) -> None:
        """Remove all, when the result is there."""
        for name in self._run.names(self._folder):
            self._run.remove(name)

    def _of(self, name: str) -> dict[str, str]:
        """Return what a checkpoint says that it is of."""
        return {"run": self._run.name, "checkpoint": name}
