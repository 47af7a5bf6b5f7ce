"""What is done to one run: all of it is drawn from the run's seed."""

import random
from dataclasses import dataclass

from chaos.jobs import CHANGES, JOBS

KINDS = {
    "driver-kill": 10, "driver-kills": 16, "driver-signal": 10, "driver-stop": 5, "step-kill": 10,
    "publish-kill": 14, "storage-fault": 8, "publish-fault": 10, "input": 10, "killed-input": 6,
    "killed-job": 6, "killed-gc": 4, "two-drivers": 5, "worker-kill": 3, "worker-stop": 2,
    "scheduler-kill": 3,
}  # fmt: skip
"""How often each kind is drawn."""

STORED = {
    "driver-kill": 10, "driver-kills": 16, "driver-signal": 8, "driver-stop": 4, "step-kill": 16,
    "publish-kill": 16, "store-lost": 12, "store-trouble": 12, "store-gone": 2, "input": 4,
    "killed-input": 4, "killed-job": 5, "killed-gc": 3, "two-drivers": 6, "worker-kill": 3,
    "scheduler-kill": 2,
}  # fmt: skip
"""The same, where the output is in a store."""

WHATS = {
    "driver-kills": ("2", "3", "4"),
    "driver-signal": ("SIGTERM", "SIGINT"),
    "storage-fault": ("ENOSPC", "EIO", "EACCES", "FULL"),
    "publish-fault": ("ENOSPC", "EIO", "EACCES", "FULL"),
    "input": CHANGES,
    "killed-input": CHANGES,
    "killed-job": ("goes on", "fresh", "other"),
}
MAPPED = ("level-tree", "imdh", "linear-svdd")
"""Jobs that are run with workers too: those that read the table most often."""


@dataclass(frozen=True)
class Case:
    """One disturbed run; all of it follows from the seed.

    `what` is the signal, the error, the change of the input, how many kills, or how it ends,
    for kinds that have several. With `overwrite` another result is there before; with `fresh`
    drivers are started from nothing, and not forked. `moment` is from 0, the start, to 1: of
    the time that an undisturbed run takes, or of the changes of files that it makes. An input
    is written over `in_place`, not replaced, and at a time if `timed`, not at a step. A process
    is stopped for `pause` seconds. With `narrow`, of the steps of publishing, only those
    outside the run's work files are meant; of the steps of a run whose input changes, those
    until all labels are written. With `working`, moments are of the time until the last result.
    """

    seed: int
    kind: str
    job: str
    what: str
    overwrite: bool
    fresh: bool
    workers: int
    moment: float
    in_place: bool
    timed: bool
    pause: float
    narrow: bool
    working: bool

    @classmethod
    def of(cls, seed: int, *, stored: bool = False) -> "Case":
        """Draw a run; `stored` says that its output is in a store."""
        draw, kinds = random.Random(seed), STORED if stored else KINDS
        [kind] = draw.choices(list(kinds), list(kinds.values()))
        clustered = kind.startswith(("worker", "scheduler"))
        fits, predicts = (MAPPED, ()) if clustered else _names()
        name = draw.choice(predicts if predicts and draw.random() < 0.3 else fits)
        return cls(
            seed=seed,
            kind=kind,
            job=name,
            what=draw.choice(WHATS.get(kind, ("",))),
            overwrite=draw.random() < 0.5,
            fresh=draw.random() < 0.08,
            workers=2 if clustered else 0,
            moment=draw.random(),
            in_place=draw.random() < 0.5,
            timed=draw.random() < 0.5,
            pause=draw.uniform(0.3, 2.0),
            narrow=draw.random() < 0.6,
            working=draw.random() < 0.6,
        )

    def moments(self, n: int) -> list[float]:
        """Return when so many things happen one after the other, each from 0 to 1."""
        draw = random.Random(f"{self.seed} again")
        return [self.moment, *(draw.random() for _ in range(n - 1))]


def _names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    predicts = tuple(name for name in JOBS if name.startswith("predict-"))
    return tuple(name for name in JOBS if name not in predicts), predicts
