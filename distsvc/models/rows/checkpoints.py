"""States of a learner and its positions in its stream, from which it can go on.

A learner asks for its last state before it begins, and offers the present one after every piece of
work. The caller decides what becomes of it; in memory nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

import numpy as np

from distsvc.models.rules.fields import Facts, check_fields, forms_of, whole

State = tuple[Facts, dict[str, np.ndarray]]
"""Facts, and arrays, which are used before the learner goes on."""

T = TypeVar("T")
Restore = Callable[[Facts, dict[str, np.ndarray]], T]

MAX_STATE_COUNT = 2**62


class Checkpoint(Protocol):
    """The states of one learner."""

    def last(self, restore: Restore[T]) -> T | None:
        """Return what `restore` makes of the last state that it takes, None where there is none.

        `restore` raises DataError for a state of another form, before it changes anything.
        """

    def keep(self, steps: int, state: Callable[[], State]) -> None:
        """Take note that so many steps are done, of which ``state()`` is the outcome."""


class NoCheckpoint:
    """Keeps nothing."""

    def last(self, restore: Restore[T]) -> T | None:
        """Return None."""

    def keep(self, steps: int, state: Callable[[], State]) -> None:
        """Do nothing."""


NO_CHECKPOINT = NoCheckpoint()


@dataclass
class Position:
    """A position in a stream: the epoch, the block in it, and the rows fed of that, from 0."""

    epoch: Annotated[int, whole(0, MAX_STATE_COUNT)] = 0
    block: Annotated[int, whole(0, MAX_STATE_COUNT)] = 0
    row: Annotated[int, whole(0, MAX_STATE_COUNT)] = 0

    def facts(self) -> dict[str, int]:
        """Return it as JSON can hold it; `restored` takes it back."""
        return dict(vars(self))

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Position:
        """Return the position that `facts` stands for; `DataError` where it is none."""
        check_fields(forms_of(Position), facts, {})
        return cls(facts["epoch"], facts["block"], facts["row"])

    def pieces(
        self, blocks: Iterable[np.ndarray], most: Callable[[], int] = lambda: MAX_STATE_COUNT
    ) -> Iterator[np.ndarray]:
        """Yield what is left of the epoch in pieces of at most ``most()`` rows.

        `blocks` are the epoch's, from this position on. The position is behind a piece as soon as
        that is yielded, and at the next epoch in the end.
        """
        for block in blocks:
            while self.row < len(block):
                piece = block[self.row : self.row + most()]
                self.row += len(piece)
                yield piece
            self.block, self.row = self.block + 1, 0
        self.epoch, self.block = self.epoch + 1, 0
