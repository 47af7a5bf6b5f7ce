"""The bar of a run on a terminal.

The durations of phases are unknown, so each phase has a usual share of the bar.
"""

import datetime
import logging
import math

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

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
"""Start and end of each phase, as shares of the bar's length.

A phase that is not listed starts where the bar is. It ends after a third of the way to 0.65, where
labelling starts.
"""


class WholeBar(logging.Handler):
    """A bar with the phase, its rows per second and its time left; events are printed above it."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True)
        cut = Column(no_wrap=True, overflow="ellipsis")
        self._bars = Progress(
            TextColumn("{task.description:<26}", table_column=cut),  # 80 characters a line
            BarColumn(bar_width=14),
            TextColumn("{task.fields[pace]}", table_column=cut),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._bars.start()
        self._bar = self._bars.add_task("", total=1.0, pace="")
        self._begun, self._end = 0.0, 0.0

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(self.format(record), highlight=False, markup=False, soft_wrap=True)

    def begin(self, phase: str, title: str) -> None:
        at = self._bars.tasks[self._bar].completed
        if phase == "open":  # the next run of a demo or backfill begins
            at = 0.0
        first, last = SHARES.get(phase, (at, at + (0.65 - at) / 3.0))
        self._begun, self._end = max(first, at), max(last, at)
        self._bars.update(self._bar, description=title, completed=self._begun, pace="")

    def update(self, share: float, pace: float | None, left: float | None) -> None:
        """Show the finished share of the phase, its rows per second and seconds left."""
        at = self._begun + share * (self._end - self._begun)
        words = [f"{pace:,.0f} rows/s"] if pace else []
        if left is not None:
            words.append(f"{datetime.timedelta(seconds=math.ceil(left))} left")
        self._bars.update(self._bar, completed=at, pace=", ".join(words))

    def close(self) -> None:
        self._bars.update(self._bar, visible=False)
        self._bars.stop()
        super().close()
