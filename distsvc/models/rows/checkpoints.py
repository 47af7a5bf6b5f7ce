"""States of a learner and its positions in a stream, from which it resumes.

A learner requests its last state before it begins, and offers its state after every piece of work.
The caller decides whether to store it; learners in memory store nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

import numpy as np

from distsvc.models.rules.fields import Facts, check_fields, forms_of, whole

State = tuple[Facts, dict[str, np.ndarray]]
"""Facts and arrays; the arrays are valid until the learner continues."""

Restored = TypeVar("Restored")
Restore = Callable[[Facts, dict[str, np.ndarray]], Restored]

MAX_STATE_COUNT = 2**62
"""Maximum of a count in a state."""


class Checkpoint(Protocol):
    """Stored states of one learner."""

    def last(self, restore: Restore[Restored]) -> Restored | None:
        """Return `restore` of the last valid state; None if there is none.

        `restore` raises DataError if it can't use a state, before it changes anything.
        """

    def keep(self, steps: int, state: Callable[[], State]) -> None:
        """Store ``state()``, the state after `steps` steps, unless the last one is recent."""


class NoCheckpoint:
    """Stores nothing."""

    def last(self, restore: Restore[Restored]) -> Restored | None:
        """Return None."""

    def keep(self, steps: int, state: Callable[[], State]) -> None:
        """Do nothing."""


NO_CHECKPOINT = NoCheckpoint()


@dataclass
class Position:
    """Position in a stream: epoch, its block, and the next row of the block, from 0."""

    epoch: Annotated[int, whole(0, MAX_STATE_COUNT)] = 0
    block: Annotated[int, whole(0, MAX_STATE_COUNT)] = 0
    row: Annotated[int, whole(0, MAX_STATE_COUNT)] = 0

    def facts(self) -> dict[str, int]:
        """Return the position as JSON values for `restored`."""
        return dict(vars(self))

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Position:
        """Return the position from its `facts`; DataError if they are invalid."""
        check_fields(forms_of(Position), facts, {})
        return cls(facts["epoch"], facts["block"], facts["row"])

    def pieces(
        self, blocks: Iterable[np.ndarray], most: Callable[[], int] = lambda: MAX_STATE_COUNT
    ) -> Iterator[np.ndarray]:
        """Yield the rest of the epoch in pieces of at most ``most()`` rows.

        `blocks` start at this position. The position moves behind a piece before the piece is
        yielded, and to the next epoch at the end.
        """
        for block in blocks:
            while self.row < len(block):
                piece = block[self.row : self.row + most()]
                self.row += len(piece)
                yield piece
            self.block, self.row = self.block + 1, 0
        self.epoch, self.block = self.epoch + 1, 0
