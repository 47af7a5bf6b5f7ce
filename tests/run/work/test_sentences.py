"""Every event that the code emits has a sentence, and no sentence lacks a field of it."""

import ast
import re
from pathlib import Path

import pytest

import distsvc
from distsvc.run.work.phases import Phase
from distsvc.run.work.progress import (
    PHASES,
    SENTENCES,
    duration,
    needs_verbose,
    phase_title,
    sentence,
)

ROOT = Path(distsvc.__file__).parent
TREES = {path: ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}


def calls(*names):
    """Yield the first argument of each call of a method or class of these names, if a text."""
    for tree in TREES.values():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0]
            if called in names and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def test_every_event_has_a_sentence():
    emitted = set(calls("event", "_tell_once")) | {"phase finished", "warning"}
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
        (
            "columns",
            {"used": "a", "left_out": "n (a name)"},
            "Columns: a. Not used: n (a name).",
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
            {"phase": "survey", "seconds": 2.04, "rows": 1000},
            "Read the table: 2.0 s, 1,000 rows.",
        ),
        (
            "check",
            {"check": "min_rows", "state": "failed", "level": "error", "found": 3, "limit": 9},
            "Check min_rows failed: found 3, limit 9.",
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
def test_words(event, fields, words):
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


def test_what_is_left_out_unless_all_is_asked_for():
    assert needs_verbose("phase finished", {"seconds": 0.2})
    assert not needs_verbose("phase finished", {"seconds": 1.2})
    assert needs_verbose("check", {"state": "passed"})
    assert not needs_verbose("check", {"state": "failed"})
    assert needs_verbose("warning", {})  # the command prints it
    assert not needs_verbose("task failed", {})
    assert phase_title("unknown") == "unknown"
