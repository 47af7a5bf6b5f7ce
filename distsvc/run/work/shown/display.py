"""What is shown of events: sentences or lines of JSON, above the bar where there is one."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from distsvc.errors import one_line
from distsvc.run.work.shown.sentences import details, is_worth_telling, sentence
from distsvc.run.work.start import Display

if TYPE_CHECKING:
    from distsvc.run.work.shown.bars import WholeBar

LOG = logging.getLogger("distsvc")


class JsonLines(logging.Formatter):
    """Makes one JSON object of a record: time, event, its fields, and an error's traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
        event = {"time": stamp, "event": record.getMessage(), **_fields(record)}
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


class Sentences(logging.Formatter):
    """Makes a sentence of a record, with its time if it is `stamped`; of an error, the traceback.

    A `verbose` one shows all fields, too.
    """

    def __init__(self, stamped: bool, verbose: bool = False):
        super().__init__()
        self._stamped, self._verbose = stamped, verbose

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines, each safe to print."""
        fields = _fields(record)
        words = sentence(record.getMessage(), fields)
        if self._verbose and fields.keys() - {"run"}:
            words += f" [{details(fields)}]"
        if self._stamped:
            words = f"{self.formatTime(record, '%Y-%m-%d %H:%M:%S')} {words}"
        lines = [words]
        if record.exc_info:
            lines += self.formatException(record.exc_info).splitlines()
        return "\n".join(map(one_line, lines))


def shown(display: Display, bar: WholeBar | None) -> logging.Handler:
    """Return the handler that shows events, above the bar if there is one."""
    handler = logging.StreamHandler() if bar is None else bar.above()
    if display.log_format == "json":
        handler.setFormatter(JsonLines())
        return handler
    handler.setFormatter(Sentences(stamped=bar is None, verbose=display.verbose))
    if not display.verbose:
        handler.addFilter(lambda of: is_worth_telling(of.getMessage(), getattr(of, "fields", {})))
    if bar is not None:
        handler.addFilter(lambda of: of.getMessage() not in ("phase finished", "warning"))
    return handler


@contextmanager
def attached(handler: logging.Handler) -> Iterator[None]:
    """Send the package's events to a handler for a while."""
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


def log_defect(error: Exception, words: str, as_json: bool) -> None:
    """Write an exception that no user should meet to standard error, with its traceback."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else Sentences(stamped=False))
    with attached(handler):
        LOG.error("defect", exc_info=error, extra={"fields": {"error": words}})


def terminal_bar(display: Display) -> WholeBar | None:
    """Return the bar of a run that is watched on a terminal, else None."""
    if display.log_format == "json" or not (sys.stderr and sys.stderr.isatty()):
        return None
    from distsvc.run.work.shown.bars import WholeBar  # rich is for people

    return WholeBar()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of an event."""
    return dict(getattr(record, "fields", {}))
