"""Checkpoints of a task, or of a step of the driver, that learns row after row.

A checkpoint is a result like others, ``checkpoints/<task>/<steps>``. The state after a number of
steps is the same wherever it was computed, so answers do not depend on checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from distsvc.errors import DataError
from distsvc.models.rows.checkpoints import Restore, Restored, State
from distsvc.run.work.directory import LostWorkError, Result, RunDirectory
from distsvc.run.work.display import LOG

CHECKPOINTS = "checkpoints"

CHECKPOINT_SECONDS = 45.0
"""Seconds between two checkpoints; with writing, less than a minute of work can be lost."""


class TaskCheckpoints:
    """The checkpoints of the task or step with the result `name`."""

    def __init__(self, run: RunDirectory, name: str):
        self._run, self._folder = run, f"{CHECKPOINTS}/{name}"
        self._since = time.monotonic()

    def last(self, restore: Restore[Restored]) -> Restored | None:
        """Return the state of the last usable checkpoint, built by `restore`, if there is one.

        A checkpoint that is damaged, of another task or not accepted by `restore` is removed.
        `TemporaryError` if a checkpoint can't be reached.
        """
        for name in reversed(self._run.names(self._folder)):
            try:
                found = self._run.load(name)
                if found.facts.get("of") != self._identity(name):
                    raise DataError(f"{name}: expected a checkpoint {self._identity(name)}")
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
        """Write ``state()`` after `CHECKPOINT_SECONDS`, and then remove earlier checkpoints."""
        if time.monotonic() - self._since < CHECKPOINT_SECONDS:
            return
        name = f"{self._folder}/{steps:012d}"
        facts, arrays = state()
        self._run.write(name, Result({"of": self._identity(name), "state": facts}, arrays))
        for other in self._run.names(self._folder):
            if other < name:
                self._run.remove(other)
        self._since = time.monotonic()

    def remove(self) -> None:
        """Remove all checkpoints, once the result is written."""
        for name in self._run.names(self._folder):
            self._run.remove(name)

    def _identity(self, name: str) -> dict[str, str]:
        return {"run": self._run.name, "checkpoint": name}
