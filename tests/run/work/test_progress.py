"""Events are records of one logger: lines of JSON, or what a user attaches; phases are timed."""

import datetime
import json
import logging
import re
from contextlib import closing

import pytest

from distsvc.run.work import progress as module
from distsvc.run.work.progress import LOG, Progress, attach


class Collecting(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


@pytest.fixture
def clock(monkeypatch):
    """Time that stands still unless it is told to go on."""
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


def test_a_percent_sign_is_no_format(capsys):
    with closing(Progress(log_format="json")) as progress:
        progress.event("half: 50%d")
    assert [event["event"] for event in events(capsys)] == ["half: 50%d"]


def test_a_phase_is_kept_and_told(capsys):
    with closing(Progress(log_format="json")) as progress:
        with progress.phase("survey") as meter:
            meter.begin(2)
            meter.finished(10, 1.5)
            meter.finished(5, 70.04)
        with progress.phase("prepare"):
            pass
    survey, prepare = progress.phases
    assert (survey.name, survey.rows, survey.worker_peak_mb) == ("survey", 15, 70.0)
    assert survey.seconds >= 0.0
    assert survey.driver_peak_mb > 10.0
    assert (prepare.rows, prepare.worker_peak_mb) == (None, None)
    *_, first, second = events(capsys)
    assert (first["event"], first["phase"], first["rows"]) == ("phase finished", "survey", 15)
    assert second.keys() == {"time", "event", "phase", *prepare.model_dump()} - {"name"}


def test_a_phase_that_fails_is_not_kept(capsys):
    with (
        closing(Progress(log_format="json")) as progress,
        pytest.raises(KeyError),
        progress.phase("survey"),
    ):
        raise KeyError
    assert progress.phases == []
    assert events(capsys) == []


def test_lines_of_progress_are_a_second_apart(capsys, clock):
    with closing(Progress(log_format="json")) as progress, progress.phase("label") as meter:
        meter.begin(5)
        meter.finished()
        clock[0] += 0.9
        meter.finished()
        clock[0] += 0.2
        meter.finished()
        clock[0] += 2.0
        meter.finished()
        clock[0] += 2.0
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


def test_a_line_of_progress_says_who_did_what_and_what_is_left(capsys, clock):
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


def test_the_time_left_follows_the_pace_and_goes_down_between_tasks(clock):
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


def test_the_state_says_where_a_run_is():
    progress = Progress(quiet=True)
    names = ["phase", "done", "total", "since", "seconds_left"]
    assert progress.state() == dict.fromkeys(names)
    with progress.phase("label") as meter:
        meter.begin(5, 2)
        meter.finished()
        state = progress.state()
        assert json.loads(json.dumps(state)) == state
        assert [state[name] for name in names[:3]] == ["label", 3, 5]
        began = datetime.datetime.fromisoformat(state["since"])
        assert began.utcoffset() == datetime.timedelta(0)
        assert state["seconds_left"] >= 0.0
    assert progress.state() == dict.fromkeys(names)
    with pytest.raises(KeyError), progress.phase("report"):
        raise KeyError
    assert progress.state() == dict.fromkeys(names)


def test_a_quiet_run_prints_nothing_but_its_events_can_be_had(capsys):
    handler = Collecting()
    with attach(handler):
        progress = Progress(quiet=True)
        progress.event("cluster", kind="this process")
        with progress.phase("survey"):
            pass
    assert capsys.readouterr().err == ""
    assert [r.getMessage() for r in handler.records] == ["cluster", "phase finished"]
    assert handler.records[0].fields == {"kind": "this process"}
    assert {r.name for r in handler.records} == {"distsvc"}


def test_a_display_does_not_show_the_events_of_a_quiet_run(capsys):
    with closing(Progress(log_format="json")) as shown:
        Progress(quiet=True).event("inner")
        shown.event("outer")
    assert [event["event"] for event in events(capsys)] == ["outer"]


def test_the_logger_is_left_as_it_was(capsys):
    before = LOG.handlers[:], LOG.level
    progress = Progress(log_format="json")
    assert LOG.handlers != before[0]
    progress.close()
    assert (LOG.handlers, LOG.level) == before
    progress.event("late")
    assert capsys.readouterr().err == ""


def test_time_for_compiling_does_not_count_for_the_time_left(clock):
    with closing(Progress(quiet=True)) as progress, progress.phase("label") as meter:
        meter.begin(10)
        clock[0] += 21.0
        for worker in "ab":  # both compile at the same time
            meter.finished(100, compile_s=20.0, worker=worker)
        assert meter.seconds_left() == pytest.approx(4.0)
        assert meter.pace() == pytest.approx(200.0)
