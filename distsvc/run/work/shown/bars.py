"""The bar of a whole run on a terminal, and what is printed above it.

How long the steps of a run take is not known before, so each has a usual share of the bar, and
within a step the bar goes as far as its tasks are done.
"""

from __future__ import annotations

import datetime
import logging
import math
from contextlib import ExitStack

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from distsvc.run.work.shown.sentences import phase_title

BAR_WIDTH = 14
TITLE_WIDTH = 26
"""Characters of the bar and of what is done; a line is to fit into 80."""

SHARES = {
    "open": (0.0, 0.05),
    "cluster": (0.05, 0.10),
    "survey": (0.10, 0.30),
    "prepare": (0.30, 0.35),
    "label": (0.65, 0.95),
    "assign": (0.65, 0.95),
    "report": (0.95, 0.99),
    "publish": (0.99, 1.0),
}
"""Where the steps begin and end on the bar of a run; all others share what is between."""

LEARNING = 0.65
"""Where learning ends on the bar. It has a number of phases that is not known before."""


class AboveBar(logging.Handler):
    """Prints what happens above the bar, which shows itself how far the phases are."""

    def __init__(self, console: Console):
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print the event."""
        self._console.print(self.format(record), highlight=False, markup=False, soft_wrap=True)


class WholeBar:
    """One bar for a whole run on a terminal: what is done, how far, rows per second, time left."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self._shown = ExitStack()
        self._bars = Progress(
            TextColumn(f"{{task.description:<{TITLE_WIDTH}}}", table_column=_cut()),
            BarColumn(bar_width=BAR_WIDTH),
            _Pace(_cut()),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._shown.enter_context(self._bars)
        self._bar = self._bars.add_task("", total=1.0, pace=None, left=None)
        self._begun, self._end = 0.0, 0.0

    def begin(self, phase: str) -> None:
        """Show that a phase begins."""
        at = self._bars.tasks[self._bar].completed
        if phase == "open":  # of another run, such as the demo's next
            at = 0.0
        first, last = SHARES.get(phase, (at, at + (LEARNING - at) / 3.0))
        self._begun, self._end = max(first, at), max(last, at)
        title = phase_title(phase)
        self._bars.update(self._bar, description=title, completed=self._begun, pace=None, left=None)

    def update(self, share: float, pace: float | None, left: float | None) -> None:
        """Show how much of the phase is done, rows per second, and seconds left of it."""
        at = self._begun + share * (self._end - self._begun)
        self._bars.update(self._bar, completed=at, pace=pace, left=left)

    def above(self) -> logging.Handler:
        """Return a handler that prints above the bar."""
        return AboveBar(self.console)

    def close(self) -> None:
        """Leave the terminal as it was, without the bar."""
        self._bars.update(self._bar, visible=False)
        self._shown.close()


class _Pace(ProgressColumn):
    """Rows per second, and the time left of the phase that runs."""

    def render(self, task: Task) -> Text:
        """Return them in words."""
        pace, left = task.fields["pace"], task.fields["left"]
        words = [f"{pace:,.0f} rows/s"] if pace else []
        if left is not None:
            words.append(f"{datetime.timedelta(seconds=math.ceil(left))} left")
        return Text(", ".join(words))


def _cut() -> Column:
    return Column(no_wrap=True, overflow="ellipsis")
