"""Every public call of several versions of distsvc, side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Self

from benchmarks.harness.measure import publish
from benchmarks.harness.rows import Row, show

HERE = Path(__file__).parents[2]
REPEATS = 5
BRIEF = 0.2
"""Seconds, below which a call is repeated more often."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def calls(options: Namespace) -> None:
    """Every public call, in processor milliseconds, beside other versions: --against NAME=DIR.

    Each DIR is a checkout of another commit. Every version runs in a process of its own, on one
    thread, so that time of the processor is time of a clock on an idle machine; they are called in
    turns, once to warm up and then as often as --repeats says, short calls four times as often, and
    the least counts. `--methods` are calls to measure, by the
    beginnings of their names. A ratio is ours over the other's: above 1 a call is slower now.
    """
    others = dict(text.split("=", 1) for text in options.against or ())
    trees = {"now": str(HERE)} | others
    with ExitStack() as stack:
        versions = {
            name: stack.enter_context(CallTimer(Path(folder))) for name, folder in trees.items()
        }
        rows = []
        for name in versions["now"].offered:
            if any(name.startswith(begin) for begin in options.methods or ("",)):
                rows.append(compared(name, versions, options.repeats or REPEATS))
                print(shown(rows[-1]), file=sys.stderr, flush=True)
    show("Milliseconds of the processor", rows)
    for other in others:
        ratios = [row[f"over {other}"] for row in rows if row[f"over {other}"] is not None]
        if ratios:
            mean = geometric_mean(ratios)
            print(f"  over {other}: geometric mean {mean:.2f}, most {max(ratios):.2f}")
    publish(options.out, "calls", rows)


class CallTimer:
    """A process that has one version of distsvc, and times its calls as it is asked."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __enter__(self) -> Self:
        program = Path(__file__).with_name("public_calls.py")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD | {"PYTHONPATH": str(self.folder)},
        )
        self.offered: list[str] = self._told("")
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def seconds(self, name: str) -> float:
        """Return what one call took, of the processor."""
        return float(self._told(name))

    def _told(self, name: str) -> Any:
        print(name, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()  # type: ignore[union-attr]
        if not answer:
            sys.exit(f"calls: {self.folder} ended at {name or 'its start'!r}")
        return json.loads(answer)


def compared(name: str, versions: dict[str, CallTimer], repeats: int) -> Row:
    """Return the least milliseconds of a call in every version that has it."""
    least: dict[str, float] = {}
    having = {key: one for key, one in versions.items() if name in one.offered}
    while repeats > 0:
        for key, one in having.items():
            least[key] = min(least.get(key, float("inf")), one.seconds(name))
        repeats -= 1 if max(least.values()) >= BRIEF else 0.25
    row: Row = {"call": name}
    row |= {key: 1000.0 * least[key] if key in least else None for key in versions}
    for key in versions:
        if key != "now":
            row[f"over {key}"] = least["now"] / least[key] if key in least else None
    return row


def shown(row: Row) -> str:
    """Return a row in one line."""
    told = [f"{k} {v:.3g}" for k, v in row.items() if isinstance(v, float)]
    return f"{row['call']}: {', '.join(told)}"
