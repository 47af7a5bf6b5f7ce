"""Progress of a run: events, and phases with their finished tasks and costs.

An event is a record of the logger ``distsvc``: the message is the event's name, and the attribute
``fields`` a dictionary. A `Progress` displays its own events. It also displays events that were
logged without a `Progress`, such as a store's. Callers from Python can attach other handlers.
"""

import datetime
import json
import logging
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from distsvc.errors import one_line
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.report import PhaseCost, phase_title
from distsvc.run.work.start import Display
from distsvc.storage.places.lease import Doing

if TYPE_CHECKING:
    from distsvc.run.work.bars import WholeBar

HERE = "this process"
"""Name of the worker if the driver runs the tasks."""


class Meter:
    """Counts finished tasks of a phase, with their rows and costs."""

    def __init__(self, progress: "Progress", name: str):
        self._progress, self.name = progress, name
        self.total, self.before, self.done, self.rows, self.worker_peak_mb = 0, 0, 0, 0, 0.0
        self.began = self.last = time.perf_counter()
        self.since = now_text()
        self.latest: dict[str, object] = {}
        self.compile_s: dict[object, float] = {}

    def begin(self, total: int, before: int = 0) -> None:
        """Set the number of tasks; `before` is the number that an earlier start has finished."""
        self.total, self.before, self.done = total, before, before
        if before:
            self.event("resumed", done_before=before, total=total)
        self._progress.update(self)

    def finished(
        self, rows: int = 0, worker_peak_mb: float = 0.0, compile_s: float = 0.0, **task: object
    ) -> None:
        """Count a finished task.

        The fields in `task`, such as ``worker``, are logged with the next event of progress.
        """
        self.done += 1
        self.rows += rows
        self.worker_peak_mb = max(self.worker_peak_mb, worker_peak_mb)
        self.last, self.latest = time.perf_counter(), task
        worker = task.get("worker")
        self.compile_s[worker] = self.compile_s.get(worker, 0.0) + compile_s
        self._progress.update(self)

    def seconds_left(self) -> float | None:
        """Return the seconds left at the pace so far; None if no task is finished."""
        here = self.done - self.before
        if not here:
            return None
        ahead = (self.total - self.done) * self._working() / here
        return round(max(ahead - (time.perf_counter() - self.last), 0.0), 1)

    def pace(self) -> float:
        seconds = self._working()
        return self.rows / seconds if seconds > 0.0 else 0.0

    def _working(self) -> float:
        """Return the seconds from start to last task, minus the longest compilation of a worker."""
        return max(self.last - self.began - max(self.compile_s.values(), default=0.0), 0.0)

    def event(self, name: str, error: BaseException | None = None, /, **fields: object) -> None:
        self._progress.event(name, error, phase=self.name, **fields)


class Progress:
    """Logs and displays events, and stores the costs of phases.

    `Display` explains the parameters. Every event has the name of the `run` once it is known.
    """

    def __init__(
        self,
        quiet: bool = False,
        verbose: bool = False,
        log_format: Literal["text", "json"] = "text",
    ):
        display = Display(quiet, verbose, log_format)
        self._shown = ExitStack()
        self._bar: WholeBar | None = None
        # Seconds between two events of a phase's progress.
        self._patience = 1.0 if display.verbose or display.log_format == "json" else 10.0
        self._last_update = 0.0
        self._compiles = False
        self._meter: Meter | None = None
        self._began = time.monotonic()
        self.seconds_before = 0.0  # of earlier starts of the run
        self.run: str | None = None
        self.phases: list[PhaseCost] = []
        self.notes: list[str] = []
        if not display.quiet:
            if display.log_format != "json" and sys.stderr and sys.stderr.isatty():
                from distsvc.run.work import bars  # rich takes time to import

                self._bar = self._shown.enter_context(closing(bars.WholeBar()))
            handler = event_handler(display, self._bar)
            handler.addFilter(self._is_displayed)
            self._shown.enter_context(attach(handler))

    def _is_displayed(self, record: logging.LogRecord) -> bool:
        """Return True for records of this object, and for records of no `Progress`.

        Every process logs "compiling". Only the first of these records is displayed.
        """
        if record.getMessage() == "compiling":
            self._compiles, before = True, self._compiles
            return not before
        return getattr(record, "source", self) is self

    def close(self) -> None:
        self._shown.close()

    def event(self, name: str, error: BaseException | None = None, /, **fields: object) -> None:
        if name == "note":
            self.notes.append(str(fields["because"]))
        if self.run is not None:
            fields = {"run": self.run, **fields}
        LOG.info(name, exc_info=error, extra={"fields": fields, "source": self})

    def seconds(self) -> float:
        """Return the seconds of work, including earlier starts of the run."""
        return round(self.seconds_before + time.monotonic() - self._began, 1)

    def state(self) -> Doing:
        """Return the state of the run and its phase as JSON values; any thread may call it."""
        meter = self._meter
        names = {"phase": "name", "done": "done", "total": "total", "since": "since"}
        known: Doing = {key: getattr(meter, name, None) for key, name in names.items()}
        known |= {"seconds_left": meter.seconds_left() if meter is not None else None}
        return {"run": self.run, "seconds": self.seconds()} | known

    @contextmanager
    def phase(self, name: str) -> Iterator[Meter]:
        """Measure a phase, and store its costs if it succeeds."""
        self._meter = meter = Meter(self, name)
        before = _compile_seconds()
        if self._bar is not None:
            self._bar.begin(name, phase_title(name))
        try:
            yield meter
        finally:
            self._meter = None
        seconds = time.perf_counter() - meter.began
        compiled = max([_compile_seconds() - before, *meter.compile_s.values()])
        cost = PhaseCost(
            name=name,
            seconds=round(seconds, 4),
            compile_seconds=round(min(compiled, seconds), 1),
            rows=meter.rows or None,
            driver_peak_mb=round(peak_memory_mb(), 1),
            worker_peak_mb=round(meter.worker_peak_mb, 1) or None,
        )
        self.phases.append(cost)
        if self._bar is not None:
            self._bar.update(1.0, None, None)
        self.event("phase finished", phase=name, **cost.model_dump(exclude={"name"}))

    def update(self, meter: Meter) -> None:
        """Display the finished tasks of a phase: on the bar, or now and then as an event."""
        pace, now, last = meter.pace(), time.perf_counter(), self._last_update
        if self._patience > 1.0:  # no sentence at the beginning of a phase
            last = max(last, meter.began)
        if self._bar is not None:
            self._bar.update(meter.done / max(meter.total, 1), pace, meter.seconds_left())
        elif now - last > self._patience and meter.done < meter.total:
            self._last_update = now
            counts = {"done": meter.done, "total": meter.total, "rows": meter.rows}
            times = {"rows_per_s": round(pace), "seconds_left": meter.seconds_left()}
            meter.event("progress", **meter.latest, **counts, **times)


def _compile_seconds() -> float:
    """Return the seconds that this process has spent compiling; 0 without numba."""
    jit = sys.modules.get("distsvc.kernels.jit")
    return jit.compile_seconds() if jit else 0.0


def peak_memory_mb() -> float:
    """Return the peak resident size of this process, in MB."""
    # On Linux, `ru_maxrss` is inherited from the parent process.
    found = _status_mb("VmHWM")
    if found is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def mapped_memory_mb() -> float | None:
    """Return the resident size of mapped files in this process, in MB, if known."""
    return _status_mb("RssFile")


def _status_mb(name: str) -> float | None:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) * 1024 / 1e6
    except (OSError, IndexError, ValueError):
        return None


def now_text() -> str:
    """Return the current time (UTC) in ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


LOG = logging.getLogger("distsvc")

Fields = Mapping[str, Any]


class JsonLines(logging.Formatter):
    """Formats a record as JSON: time, event, fields, traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
        event = {"time": stamp, "event": record.getMessage(), **_fields(record)}
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


class Sentences(logging.Formatter):
    """Formats a record as a sentence, with its time if `stamped`, and all fields if `verbose`."""

    def __init__(self, stamped: bool, verbose: bool = False):
        super().__init__()
        self._stamped, self._verbose = stamped, verbose

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        words = sentence(record.getMessage(), fields)
        if self._verbose and fields.keys() - {"run"}:
            words += f" [{details(fields)}]"
        if self._stamped:
            words = f"{self.formatTime(record, '%Y-%m-%d %H:%M:%S')} {words}"
        error = self.formatException(record.exc_info).splitlines() if record.exc_info else []
        return "\n".join(map(one_line, [words, *error]))


def event_handler(display: Display, bar: "WholeBar | None") -> logging.Handler:
    """Return the handler that prints events, above the bar if there is one."""
    handler = bar or logging.StreamHandler()
    if display.log_format == "json":
        handler.setFormatter(JsonLines())
        return handler
    handler.setFormatter(Sentences(stamped=bar is None, verbose=display.verbose))
    if not display.verbose:
        handler.addFilter(lambda of: not needs_verbose(of.getMessage(), _fields(of)))
    if bar is not None:
        handler.addFilter(lambda of: of.getMessage() not in ("phase finished", "warning"))
    return handler


@contextmanager
def attach(handler: logging.Handler) -> Iterator[None]:
    """Send the package's events to a handler inside the block."""
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


def log_defect(error: Exception, words: str, as_json: bool) -> None:
    """Write an unexpected exception to standard error, with its traceback."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else Sentences(stamped=False))
    with attach(handler):
        LOG.error("defect", exc_info=error, extra={"fields": {"error": words}})


def duration(seconds: float) -> str:
    """Return a duration as text: ``36 s``, ``2 min 5 s``, ``1 h 10 min``."""
    whole = math.ceil(seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def needs_verbose(event: str, fields: Fields) -> bool:
    """Return True if an event is shown with --verbose only, such as the end of a brief phase."""
    brief = event == "phase finished" and float(fields.get("seconds", 0.0)) < 1.0
    check = event == "check" and fields.get("state") != "warned"
    return brief or check or event in ("warning", "went on", "outer step")


def sentence(event: str, fields: Fields) -> str:
    """Return the sentence in `SENTENCES` for an event.

    If the event has no sentence, or lacks a field of the sentence, return its name and its fields.
    """
    titled = {**fields, "phase": phase_title(str(fields.get("phase", "")))}
    words = SENTENCES.get(event)
    try:
        if callable(words):
            return words(titled)
        if words is not None:
            return words.format_map(titled)
    except (KeyError, TypeError, ValueError):
        pass  # a field is missing
    return f"{event}: {details(fields)}" if fields else event


def details(fields: Fields) -> str:
    """Return all fields as text, except the name of the run."""
    return ", ".join(f"{name} {value}" for name, value in fields.items() if name != "run")


def _fields(record: logging.LogRecord) -> Fields:
    return getattr(record, "fields", {})


def _cluster(fields: Fields) -> str:
    kind, address = fields["kind"], fields.get("address")
    if kind == "this process":
        return f"Using one core: {fields['because']}."
    if kind == "scheduler":
        dashboard = fields.get("dashboard")
        return f"Scheduler {address}" + (f"; its dashboard is {dashboard}." if dashboard else ".")
    n = kind.partition(" ")[0]
    return f"{n} worker{'' if n == '1' else 's'} on this machine."


def _columns(fields: Fields) -> str:
    left_out = fields["left_out"]
    others = "" if left_out == "none" else f" Not used: {left_out}."
    name = fields.get("may_be_id")
    hint = f" To name the rows by {name}: --id {name}." if name else ""
    return f"Columns: {fields['used']}.{others}{hint}"


def _resumed(fields: Fields) -> str:
    if "seconds_of_work" not in fields:
        return "{phase}: {done_before} of {total} were done before.".format_map(fields)
    seconds = float(fields["seconds_of_work"])
    return f"Going on from an interrupted run, with {duration(seconds)} of work kept."


def _progress(fields: Fields) -> str:
    words = f"{fields['phase']}: {fields['done']} of {fields['total']}"
    if fields.get("rows_per_s"):
        words += f", {fields['rows_per_s']:,} rows/s"
    left = fields.get("seconds_left")
    return words + (f", {duration(left)} left" if left is not None else "") + "."


def _finished(fields: Fields) -> str:
    rows = f", {fields['rows']:,} rows" if fields.get("rows") else ""
    compiled = fields.get("compile_seconds", 0.0)
    of_it = f", {duration(compiled)} of it compiling" if compiled > PAGE_LIMITS.compiled else ""
    return f"{fields['phase']}: {duration(fields['seconds'])}{of_it}{rows}."


SENTENCES: Mapping[str, str | Callable[[Fields], str]] = {
    "cluster": _cluster,
    "columns": _columns,
    "decimal commas": "The numbers of {file} have decimal commas.",
    "missing values": "Missing values: {columns}.",
    "new values": "New, rare or missing values: {columns}.",
    "ignored columns": "Columns not used, since {because}: {names}.",
    "goes on from": "Cluster ids continue those of run {published} in {path}.",
    "begins a lineage": "No earlier run is published in {not_published}: cluster ids begin at 0.",
    "another output": "{taken} has the result of a run with other options. This run writes to "
    "{path}.",
    "moves": "{moved:,} ids are in another cluster than in the run before, {new:,} ids are new, "
    "{gone:,} are gone.",
    "new names": "Clusters with a new name, since the earlier name is no longer true: {clusters}.",
    "learns a new model": "A new model is learned: {because}.",
    "resumed": _resumed,
    "starts over": "The run starts over: {because}.",
    "done again": "Damaged work is done again: {because}.",
    "checkpoint passed over": "Checkpoint {checkpoint} can't be used: {error}.",
    "went on": "Going on from checkpoint {checkpoint}.",
    "waiting": "Waiting at most {seconds:.0f} s for {for}.",
    "progress": _progress,
    "phase finished": _finished,
    "compiling": "Compiling code for this machine; later runs that need it start sooner.",
    "compiled code is not kept": "Compiled code can't be stored, so every run compiles again: "
    "{because}.",
    "worker": "Worker {address} is {status}.",
    "worker silent": "Worker {address} has not answered for {seconds:.0f} s. Its work moves to "
    "other workers after {limit:.0f} s.",
    "worker given up": "Worker {address} has not answered for {seconds:.0f} s. Its work moves to "
    "other workers.",
    "task failed": "{phase}: partition {partition} failed on {worker}: {error}.",
    "task repeated": "{phase}: partition {partition} succeeded at the second attempt.",
    "credentials are those of the environment": "{url}: credentials are taken from the "
    "environment: {because}.",
    "scheduler without TLS": "Warning: {about}.",
    "other processor": "Warning: {who} has the vector instructions {theirs}, this process has "
    "{ours}. Results of NumPy or BLAS may differ in their last digits.",
    "outer step": "Largest violation of optimality: {violation:.3g}; objective: {objective:.6g}.",
    "page without figures": "The page has no figures, which need matplotlib: pip install "
    "'distsvc[report]', then distsvc report.",
    "check": "Check {state}: {words}.",
    "note": "{because}.",
    "warning": "Warning: {because}",
    "older candidate given up": "Run {run}, the oldest run that a check held back, was removed.",
    "already published": "{output} already has this result, of the same job and of input files "
    "with the same names, sizes and times. If a file did change, add --overwrite --fresh.",
    "demo": "{job}: {clusters} clusters.",
    "defect": "A defect of distsvc: {error}",
}
"""The words for each event: a template with its fields, or a function of the fields."""
