"""Checkpoints: a learner that was interrupted resumes from its last stored state.

A learner requests its last state before it begins, and offers its state after every piece of work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

import numpy as np

from distsvc.models.rules.fields import Facts, check_fields, forms_of, whole

State = tuple[Facts, dict[str, np.ndarray]]
"""JSON values and arrays of a learner's state; the arrays are valid until the learner continues."""

Restored = TypeVar("Restored")
Restore = Callable[[Facts, dict[str, np.ndarray]], Restored]

MAX_STATE_COUNT = 2**62


class Checkpoint:
    """Storage for the state of one learner. This base class stores nothing."""

    def last(self, restore: Restore[Restored]) -> Restored | None:
        """Return ``restore(facts, arrays)`` of the last valid state; None if there is none.

        `restore` must raise DataError before it changes anything if it can't use a state.
        """
        return None

    def keep(self, steps: int, state: Callable[[], State]) -> None:
        """Store ``state()``, the state after `steps` steps, unless another was stored recently."""


NO_CHECKPOINT = Checkpoint()


@dataclass
class Position:
    """Position in a stream: epoch, block in the epoch, and next row in the block, from 0."""

    epoch: Annotated[int, whole(0, MAX_STATE_COUNT)] = 0
    block: Annotated[int, whole(0, MAX_STATE_COUNT)] = 0
    row: Annotated[int, whole(0, MAX_STATE_COUNT)] = 0

    def facts(self) -> dict[str, int]:
        return dict(vars(self))

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Self:
        """Return the position from its `facts`; raise DataError if they are invalid."""
        check_fields(forms_of(Position), facts, {})
        return cls(facts["epoch"], facts["block"], facts["row"])

    def pieces(
        self, blocks: Iterable[np.ndarray], most: Callable[[], int] = lambda: MAX_STATE_COUNT
    ) -> Iterator[np.ndarray]:
        """Yield the rest of the epoch in pieces of at most ``most()`` rows, and move the position.

        `blocks` start at the position's block. The position is moved past a piece before the piece
        is yielded. After the last piece, it is moved to the start of the next epoch.
        """
        for block in blocks:
            while self.row < len(block):
                piece = block[self.row : self.row + most()]
                self.row += len(piece)
                yield piece
            self.block, self.row = self.block + 1, 0
        self.epoch, self.block = self.epoch + 1, 0
