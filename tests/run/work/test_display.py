"""Standard error: sentences by default, lines of JSON if asked for, one bar on a terminal."""

import io
import json
import re
import time
from contextlib import closing, redirect_stderr

import pytest

from distsvc.run.work import progress as module
from distsvc.run.work.bars import WholeBar
from distsvc.run.work.progress import Progress, log_defect

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Time that stands still unless it is told to go on."""
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def a_run(progress, clock):
    """Tell of a short phase, and of a long one with a task that fails."""
    progress.run = "ab12-34cd"
    with progress.phase("open"):
        progress.event("columns", used="a, b", left_out="none")
    with progress.phase("label") as meter:
        meter.begin(9)
        for _ in range(8):
            clock[0] += 3.0
            meter.finished(300)
    progress.event("warning", because="the end is near")


def test_sentences_are_the_default(capsys, clock):
    with closing(Progress()) as progress:
        a_run(progress, clock)
    lines = capsys.readouterr().err.splitlines()
    assert all(re.match(STAMP, line) for line in lines)
    assert [re.sub(STAMP, "", line) for line in lines] == [
        "Columns: a, b.",
        "Label the rows: 4 of 9, 100 rows/s, 15 s left.",
        "Label the rows: 8 of 9, 100 rows/s, 3.0 s left.",
        "Label the rows: 24 s, 2,400 rows.",
    ]


def test_all_events_with_all_fields(capsys, clock):
    with closing(Progress(verbose=True)) as progress:
        a_run(progress, clock)
    lines = [re.sub(STAMP, "", line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == 13
    assert "Columns: a, b. [used a, b, left_out none]" in lines
    assert any(line.startswith("Open the table: 0.0 s. [phase open, seconds 0") for line in lines)
    assert lines[-1] == "Warning: the end is near [because the end is near]"
    assert not any("ab12" in line for line in lines)


def test_json_has_all_events(capsys, clock):
    with closing(Progress(log_format="json")) as progress:
        a_run(progress, clock)
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events if event["event"] != "progress"] == [
        "columns", "phase finished", "phase finished", "warning",
    ]  # fmt: skip
    assert all(event["run"] == "ab12-34cd" for event in events)
    assert sum(event["event"] == "progress" for event in events) == 9


def test_quiet_shows_nothing(capsys, clock):
    for log_format in ("text", "json"):
        with closing(Progress(quiet=True, log_format=log_format)) as progress:
            a_run(progress, clock)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_one_bar_and_sentences_above_it(clock):
    with redirect_stderr(Terminal()) as terminal, closing(Progress()) as progress:
        progress.event("cluster", kind="this process", because="x", text="[red]")
        progress.event("unknown", text="[red]")
        with progress.phase("survey") as meter:
            meter.begin(4)
            for _ in range(4):
                meter.finished()
        with progress.phase("learn") as meter:
            meter.begin(4)
            clock[0] += 30.0
            meter.finished(600)
            until = time.monotonic() + 10.0
            while "left" not in terminal.getvalue() and time.monotonic() < until:
                time.sleep(0.02)  # another thread draws the bar
        progress.event("warning", because="the end is near")
    shown = terminal.getvalue()
    assert "Using one core: " in shown.replace("\x1b[2K", "")
    assert "unknown: text [red]" in shown
    assert "Train models" in shown
    assert "20 rows/s, 0:01:30 left" in shown
    assert "phase finished" not in shown
    assert "the end is near" not in shown
    assert '"event"' not in shown


def test_json_on_a_terminal_has_no_bar():
    with redirect_stderr(Terminal()) as terminal, closing(Progress(log_format="json")) as progress:
        progress.event("cluster", kind="this process", because="x")
    [line] = terminal.getvalue().splitlines()
    assert json.loads(line)["kind"] == "this process"


def test_the_bar_goes_forward_only():
    with redirect_stderr(Terminal()):
        bar = WholeBar()
        seen = []
        for phase in ("open", "cluster", "survey", "learn", "splits", "vote", "label", "publish"):
            bar.begin(phase)
            for share in (0.0, 0.5, 1.0):
                bar.update(share, None, None)
                seen.append(bar._bars.tasks[0].completed)
        bar.begin("open")
        again = bar._bars.tasks[0].completed
        bar.close()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert seen[0] == again == 0.0
    assert len(set(seen)) > 12


def failed() -> ValueError:
    try:
        raise ValueError("shapes (3,) (2,)")
    except ValueError as error:
        return error


def test_a_defect_is_logged_with_its_traceback(capsys):
    log_defect(failed(), "ValueError: shapes (3,) (2,)", as_json=True)
    event = json.loads(capsys.readouterr().err)
    assert (event["event"], event["error"]) == ("defect", "ValueError: shapes (3,) (2,)")
    assert event["traceback"].startswith("Traceback (most recent call last):\n")
    assert 'raise ValueError("shapes (3,) (2,)")' in event["traceback"]


def test_a_defect_in_words_is_a_traceback_to_read(capsys):
    log_defect(failed(), "ValueError: shapes (3,) (2,)", as_json=False)
    told = capsys.readouterr().err
    assert told.startswith("A defect of distsvc: ValueError: shapes (3,) (2,)\nTraceback (most")
    assert told.endswith("\nValueError: shapes (3,) (2,)\n")
