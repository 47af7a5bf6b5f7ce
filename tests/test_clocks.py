"""No test asserts how long something took: on a busy machine it takes longer."""

import ast
from collections.abc import Iterator
from pathlib import Path

CLOCKS = {"monotonic", "perf_counter", "process_time", "monotonic_ns", "perf_counter_ns"}
ROOT = Path(__file__).parent


def asserted_clocks(source: str) -> Iterator[int]:
    """Yield the lines of assertions that read a clock, or a name that was given a clock's time."""
    tree = ast.parse(source)
    timed = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and reads_clock(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and (
            reads_clock(node.test)
            or timed & {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)}
        ):
            yield node.lineno


def reads_clock(node: ast.AST) -> bool:
    """Return True if an expression calls a clock of the module `time`."""
    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return any(getattr(one, "attr", getattr(one, "id", "")) in CLOCKS for one in calls)


def test_no_test_asserts_wall_time():
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sorted(ROOT.rglob("*.py"))
        if (lines := list(asserted_clocks(path.read_text())))
    }
    assert found == {}


def test_clocks_in_assertions_are_found():
    source = (
        "import time\n"
        "a = time.monotonic()\n"
        "assert work()\n"
        "assert time.monotonic() - a < 4\n"
        "took = time.perf_counter() - a\n"
        "assert took < 4\n"
    )
    assert list(asserted_clocks(source)) == [4, 6]
