"""The bars of phases on a terminal."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from distsvc.storage.places.lease import Doing

BAR_WIDTH = 16
"""Characters of a bar; a line is to fit into 80."""


def bars_of(state: Callable[[], Doing]) -> Progress:
    """Return an empty display of bars on standard error; `state` tells how far the run is."""
    return Progress(
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=BAR_WIDTH),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        _TimeLeft(state),
        console=Console(stderr=True),
    )


class _TimeLeft(ProgressColumn):
    """The time left of the phase that runs."""

    def __init__(self, state: Callable[[], Doing]):
        super().__init__(Column(no_wrap=True, overflow="ellipsis"))
        self._state = state

    def render(self, task: Task) -> Text:
        """Return it as hours, minutes and seconds."""
        state = self._state()
        left = state["seconds_left"]
        if task.finished or state["phase"] != task.description or not isinstance(left, float):
            return Text()
        return Text(f"{datetime.timedelta(seconds=math.ceil(left))} left")
