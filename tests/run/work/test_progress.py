"""Events as sentences, lines of JSON or above a bar; phases are timed."""

import ast
import datetime
import io
import json
import re
import time
from contextlib import closing, redirect_stderr
from pathlib import Path

import pytest

import distsvc
from distsvc.report.content.report import PHASES, phase_title
from distsvc.run.work import progress as module
from distsvc.run.work.phases import Phase
from distsvc.run.work.progress import (
    LOG,
    SENTENCES,
    Progress,
    duration,
    log_defect,
    needs_verbose,
    sentence,
)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the test moves."""
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def events(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_event_is_a_line_of_json(capsys, tmp_path):
    with closing(Progress(log_format="json")) as progress:
        progress.event("cluster", kind="this process", path=tmp_path)
    [event] = events(capsys)
    assert list(event) == ["time", "event", "kind", "path"]
    assert (event["event"], event["kind"]) == ("cluster", "this process")
    assert event["path"] == str(tmp_path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", event["time"])


def test_the_costs_of_a_phase_are_stored_and_logged(capsys):
    with closing(Progress(log_format="json")) as progress:
        with progress.phase("survey") as meter:
            meter.begin(2)
            meter.finished(10, 1.5)
            meter.finished(5, 70.04)
        with progress.phase("prepare"):
            pass
    survey, prepare = progress.phases
    assert (survey.name, survey.rows, survey.worker_peak_mb) == ("survey", 15, 70.0)
    assert survey.driver_peak_mb > 10.0
    assert (prepare.rows, prepare.worker_peak_mb) == (None, None)
    *_, first, second = events(capsys)
    assert (first["event"], first["phase"], first["rows"]) == ("phase finished", "survey", 15)
    assert second.keys() == {"time", "event", "phase", *prepare.model_dump()} - {"name"}


def test_the_costs_of_a_phase_include_the_longest_compilation(clock, monkeypatch):
    """The longest of the driver and of each worker, whose tasks are summed; at most the phase."""
    progress, compiled = Progress(quiet=True), iter([0.0, 1.0, 1.0, 4.0, 4.0, 4.0])
    monkeypatch.setattr(module, "_compile_seconds", lambda: next(compiled))
    for of_tasks in [2.0, 3.0, 2.5], [1.0], [9.0]:
        with progress.phase("survey") as meter:
            clock[0] += 5.0
            for k, compile_s in enumerate(of_tasks):
                meter.finished(compile_s=compile_s, worker=k % 2)
    assert [phase.compile_seconds for phase in progress.phases] == [4.5, 3.0, 5.0]


def test_lines_of_progress_are_a_second_apart(capsys, clock):
    with closing(Progress(log_format="json")) as progress, progress.phase("label") as meter:
        meter.begin(5)
        for seconds in 0.0, 0.9, 0.2, 2.0, 2.0:
            clock[0] += seconds
            meter.finished()
    told = [(e["phase"], e["done"], e["total"]) for e in events(capsys) if e["event"] == "progress"]
    assert told == [("label", 0, 5), ("label", 3, 5), ("label", 4, 5)]


def test_every_event_names_the_run_once_it_is_known(capsys):
    with closing(Progress(log_format="json")) as progress:
        progress.event("columns", used=2)
        progress.run = "ab12-34cd"
        with progress.phase("label") as meter:
            meter.event("worker", status="lost")
    runs = [(event["event"], event.get("run")) for event in events(capsys)]
    known = [(name, "ab12-34cd") for name in ("worker", "phase finished")]
    assert runs == [("columns", None), *known]


def test_the_fields_of_a_line_of_progress(capsys, clock):
    with closing(Progress(log_format="json")) as progress, progress.phase("label") as meter:
        meter.begin(12, 2)
        clock[0] += 4.0
        meter.finished(50, 1.5, partition=2, worker="tcp://a:1", attempt=1)
    *_, event, _ = events(capsys)
    assert event.pop("time")
    assert event == {
        "event": "progress",
        "phase": "label",
        "partition": 2,
        "worker": "tcp://a:1",
        "attempt": 1,
        "done": 3,
        "total": 12,
        "rows": 50,
        "rows_per_s": 12,
        "seconds_left": 36.0,
    }


def test_the_time_left_follows_the_pace_and_falls_between_tasks(clock):
    progress = Progress(quiet=True)
    with progress.phase("label") as meter:
        meter.begin(100, 60)
        assert meter.seconds_left() is None
        for _ in range(10):
            clock[0] += 2.0
            meter.finished()
        assert meter.seconds_left() == pytest.approx(60.0)
        clock[0] += 1.5
        assert meter.seconds_left() == pytest.approx(58.5)
        clock[0] += 1000.0
        assert meter.seconds_left() == 0.0


def test_the_state_of_a_run():
    progress = Progress(quiet=True)
    names = ["phase", "done", "total", "since", "seconds_left"]

    def phase() -> dict[str, object]:
        return {name: progress.state()[name] for name in names}

    assert phase() == dict.fromkeys(names)
    with progress.phase("label") as meter:
        meter.begin(5, 2)
        meter.finished()
        state = progress.state()
        assert json.loads(json.dumps(state)) == state
        assert [state[name] for name in names[:3]] == ["label", 3, 5]
        began = datetime.datetime.fromisoformat(state["since"])
        assert began.utcoffset() == datetime.timedelta(0)
        assert state["seconds_left"] >= 0.0
    assert phase() == dict.fromkeys(names)
    with pytest.raises(KeyError), progress.phase("report"):
        raise KeyError
    assert phase() == dict.fromkeys(names)


def test_a_quiet_run_logs_events_without_printing_them(capsys, caplog):
    caplog.set_level("INFO", "distsvc")
    progress = Progress(quiet=True)
    progress.event("cluster", kind="this process")
    with progress.phase("survey"):
        pass
    records = caplog.records
    assert capsys.readouterr().err == ""
    assert [r.getMessage() for r in records] == ["cluster", "phase finished"]
    assert records[0].fields == {"kind": "this process"}
    assert {r.name for r in records} == {"distsvc"}


def test_the_logger_is_left_as_it_was(capsys):
    before = LOG.handlers[:], LOG.level
    progress = Progress(log_format="json")
    assert LOG.handlers != before[0]
    progress.close()
    assert (LOG.handlers, LOG.level) == before
    progress.event("late")
    assert capsys.readouterr().err == ""


STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "


class Terminal(io.StringIO):
    def isatty(self):
        return True


def a_run(progress, clock):
    """Log a short phase, a long one, and a warning."""
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


ROOT = Path(distsvc.__file__).parent
TREES = {path: ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}


def calls(*names):
    """Yield the first argument of each call of these names, if it is a text."""
    for tree in TREES.values():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0]
            if called in names and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def test_every_event_has_a_sentence():
    emitted = set(calls("event", "_log_once")) | {"phase finished", "warning"}
    logged = {
        node.args[0].value
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(getattr(node.func, "value", None), "id", "") in ("_LOG", "LOG")
        and isinstance(node.args[0], ast.Constant)
    }
    assert len(emitted | logged) > 20
    assert emitted | logged <= SENTENCES.keys()


def test_every_phase_has_a_title():
    names = set(calls("phase", "work_out", Phase.__name__))
    assert len(names) > 20
    assert {name for name in names if not re.search(r"\d", name)} <= PHASES.keys()


@pytest.mark.parametrize(
    ("event", "fields", "words"),
    [
        (
            "cluster",
            {"kind": "this process", "because": "the table is small"},
            "Using one core: the table is small.",
        ),
        ("cluster", {"kind": "1 workers here", "address": "a"}, "1 worker on this machine."),
        ("cluster", {"kind": "2 workers here", "address": "a"}, "2 workers on this machine."),
        (
            "cluster",
            {"kind": "scheduler", "address": "tcp://a:1", "dashboard": "http://a:2"},
            "Scheduler tcp://a:1; its dashboard is http://a:2.",
        ),
        ("columns", {"used": "a, b", "left_out": "none"}, "Columns: a, b."),
        ("columns", {"used": "a", "left_out": "n (a name)"}, "Columns: a. Not used: n (a name)."),
        (
            "columns",
            {"used": "a", "left_out": "n (an id)", "may_be_id": "n"},
            "Columns: a. Not used: n (an id). To name the rows by n: --id n.",
        ),
        (
            "resumed",
            {"kept": "survey 3", "seconds_of_work": 36.0, "stopped": "-"},
            "Going on from an interrupted run, with 36 s of work kept.",
        ),
        (
            "resumed",
            {"phase": "label", "done_before": 3, "total": 9},
            "Label the rows: 3 of 9 were done before.",
        ),
        (
            "progress",
            {"phase": "survey", "done": 1, "total": 4, "rows_per_s": 2500, "seconds_left": 90.0},
            "Read the table: 1 of 4, 2,500 rows/s, 1 min 30 s left.",
        ),
        (
            "progress",
            {"phase": "pass-03", "done": 1, "total": 4, "rows_per_s": 0, "seconds_left": None},
            "pass-03: 1 of 4.",
        ),
        (
            "phase finished",
            {"phase": "survey", "seconds": 9.04, "rows": 1000, "compile_seconds": 7.6},
            "Read the table: 9.0 s, 7.6 s of it compiling, 1,000 rows.",
        ),
        (
            "check",
            {"check": "max_drift", "state": "warned", "words": "max_drift: found 9 in x (limit 1)"},
            "Check warned: max_drift: found 9 in x (limit 1).",
        ),
        (
            "moves",
            {"moved": 1306, "new": 20, "gone": 0},
            "1,306 ids are in another cluster than in the run before, 20 ids are new, 0 are gone.",
        ),
        (
            "waiting",
            {"for": "a sign of life of x", "seconds": 30.0},
            "Waiting at most 30 s for a sign of life of x.",
        ),
        ("of tomorrow", {"run": "ab", "n": 3}, "of tomorrow: n 3"),
        ("check", {"check": "min_rows"}, "check: check min_rows"),
        ("alone", {}, "alone"),
    ],
    ids=str,
)
def test_sentences_of_events(event, fields, words):
    assert sentence(event, fields) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"), (9.9, "9.9 s"), (9.96, "10 s"), (36.0, "36 s"), (59.2, "1 min"),
        (125.0, "2 min 5 s"), (3599.5, "1 h 0 min"), (4200.0, "1 h 10 min"),
    ],
)  # fmt: skip
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_events_that_need_verbose():
    assert needs_verbose("phase finished", {"seconds": 0.2})
    assert not needs_verbose("phase finished", {"seconds": 1.2})
    assert needs_verbose("check", {"state": "passed"})
    assert needs_verbose("check", {"state": "failed"})  # the error has it
    assert not needs_verbose("check", {"state": "warned"})
    assert needs_verbose("warning", {})  # the command prints it
    assert not needs_verbose("task failed", {})
    assert phase_title("unknown") == "unknown"
