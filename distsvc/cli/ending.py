"""The end of a command after an error or a signal.

An error becomes one line and an exit code. The first SIGINT, SIGTERM or SIGHUP raises `Stopped` in
the main thread, so that `finally` blocks run. If C code or a finaliser swallows `Stopped`, it is
raised again. C code can also raise another error instead, so after a signal every error ends the
command. The main thread may be in a kernel, so another thread ends the process after a second
signal or `GRACE_SECONDS`.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from distsvc.errors.faults import DEFECT, INTERRUPTED, exit_code_and_message
from distsvc.run.work.start import DEFAULT_DISPLAY, Display

TERMINATED = 143
CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGHUP: TERMINATED}
"""Exit codes of the signals that end a command."""

GRACE_SECONDS = 8.0

_received: list[int] = []
"""A list with the first signal received, which ends the command; empty before this signal."""


class Stopped(SystemExit):
    """A signal was received; if this exception is swallowed, it is raised again."""

    def __init__(self, number: int):
        super().__init__(CODES[signal.Signals(number)])

    def __del__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)


def stoppable(command: Callable[[], object]) -> None:
    """Call `command` in the main thread; the first signal of `CODES` ends it and the process.

    Signals that were ignored before, as under ``nohup``, stay ignored. The final message contains
    the notes of the exception (`BaseException.add_note`), such as what work is finished.
    """
    kept = ""
    try:
        try:
            _listen()
            command()
        finally:
            _set_handlers(lambda number, _: _end(number, "after the work was done"))
    except BaseException as error:
        if not _received:
            raise
        kept = "; ".join(getattr(error, "__notes__", ()))
    if _received:
        for stream in sys.stdout, sys.stderr:
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        _end(_received[0], "cleanly", kept)


def _listen() -> None:
    """Let the first signal raise `Stopped` in the main thread.

    A second thread, which runs `_insist`, ends the process if the main thread does not.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    threading.Thread(target=_insist, args=(reading,), name="signals", daemon=True).start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def again(*_: object) -> None:
        raise Stopped(_received[0])

    def stop(number: int, _: FrameType | None) -> None:
        _received.append(number)
        _set_handlers(lambda *_: None)  # the thread handles further signals
        signal.signal(signal.SIGALRM, again)
        if "logging" in sys.modules:
            sys.modules["logging"].disable()  # Dask would log every lost connection
        sys.unraisablehook = lambda _: None
        threading.excepthook = lambda _: None
        raise Stopped(number)

    _set_handlers(stop)


def _set_handlers(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in CODES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _insist(reading: int) -> None:
    """Wait for a signal, then end the process at the next signal or after `GRACE_SECONDS`."""
    # The interpreter writes every signal to the pipe at once; handlers wait for the main thread.
    numbers: list[int] = []
    left = None
    while len(numbers) < 2 and select.select([reading], [], [], left)[0]:
        numbers += [number for number in os.read(reading, 64) if number in CODES]
        if numbers and left is None:
            deadline = time.monotonic() + GRACE_SECONDS
        left = max(deadline - time.monotonic(), 0.0) if numbers else None
    _end(numbers[0], "at once" if numbers[1:] else f"after {GRACE_SECONDS:.0f} s")


def _end(number: int, how: str, kept: str = "") -> None:
    """Kill child processes, print a final message, and end the process.

    `how` completes "Interrupted ...", such as "cleanly". `kept` describes the finished work.
    """
    if "multiprocessing.process" in sys.modules:
        for child in sys.modules["multiprocessing.process"].active_children():
            with suppress(OSError, ValueError, AttributeError):
                child.kill()
    with suppress(OSError):
        by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
        work = f" ({kept})" if kept else ""
        words = f"Interrupted {how}{by}. Run the same command again to go on{work}.\n"
        os.write(2, words.encode())
    os._exit(CODES[signal.Signals(number)])


def _flush() -> None:
    """Flush standard output; after an error, discard all further output."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OSError(error.errno, error.strerror, "standard output") from error


@contextmanager
def failing_cleanly(
    display: Display = DEFAULT_DISPLAY, *passing: type[Exception]
) -> Iterator[None]:
    """Turn an error into one line and its exit code; log the traceback of an unexpected error.

    Errors of the types `passing` are raised unchanged.
    """
    try:
        try:
            yield
        finally:
            _flush()
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        if _received or isinstance(error, passing):
            raise
        code, words = exit_code_and_message(error)
        if code == DEFECT:
            from distsvc.run.work.progress import log_defect

            log_defect(error, words, as_json=display.log_format == "json")
            words = f"this is a defect of distsvc: {words}; the traceback is in the log"
        with suppress(OSError):
            print(f"error: {words}", file=sys.stderr, flush=True)
        sys.exit(code)
