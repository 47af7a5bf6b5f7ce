"""Advice of a run's page and log, followed: agreement with the classes before and after."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.datasets.catalogue import catalogue
from benchmarks.harness.measure import agreement, measured, publish
from benchmarks.harness.rows import Row, grouped, mean_of, show
from benchmarks.harness.systems import prepare
from benchmarks.quality.without_labels import known
from benchmarks.realistic.real import from_folder
from benchmarks.realistic.run import wanted
from benchmarks.realistic.suite import GROUPS, TableKey, keys_of, table_of
from distsvc.errors import DistsvcError

MAX_ROWS = 2000
"""Maximum number of rows of a table; of more a sample is used."""
JOBS: dict[str, dict[str, Any]] = {
    "default": {},
    "standard": {"preprocess.scale": "standard", "preprocess.missing": "median"},
    "support-vector": {"model.algorithm": "support-vector", "preprocess.missing": "median"},
    "imdh": {"model.algorithm": "imdh", "preprocess.missing": "median"},
}
"""Keys of the jobs whose advice is followed."""
LISTS = ("input.exclude", "preprocess.log", "preprocess.missing_values")
"""Keys whose values from several pieces of advice are joined."""
HOMES = {
    "missing_values": "preprocess", "missing": "preprocess", "log": "preprocess",
    "scale": "preprocess", "exclude": "input", "algorithm": "model", "effort": "model",
}  # fmt: skip
"""Keys that warnings name as advice, and their sections."""


class Advice(NamedTuple):
    """A change of the job that a warning names.

    `warning` is the index of the warning in the run; alternatives share it.
    """

    warning: int
    keys: dict[str, Any]

    @property
    def kind(self) -> str:
        """The keys, with a value that is a word."""
        told = [f"{k}={v}" if isinstance(v, str) else k for k, v in self.keys.items()]
        return " and ".join(told)


def advice(options: Namespace) -> None:
    """Follow each advice of a run's page and log; compare the agreement before and after.

    `--group` takes the groups of `realistic`, and "tables" (with `--data`); `--methods` are jobs.
    """
    groups = known(options.group or ["kinds", "generated", "added"], [*GROUPS, "tables"], "group")
    jobs = known(options.methods, list(JOBS), "method")
    keys = keys_of([group for group in groups if group in GROUPS])
    if "tables" in groups:
        names = [one.name for one in catalogue().values() if one.group == "tables"]
        keys += [TableKey("tables", name, "tables", (name,)) for name in names]
    keys = [key for key in keys if wanted(key, options.sets)]
    tasks = [(key.name, job, key, options.data) for key in keys for job in jobs]
    rows = measured(rows_of_job, tasks, options.processes, partial(prepare, ()))
    publish(options.out, "advice", rows)
    report(rows)


def rows_of_job(name: str, job: str, key: TableKey, data: Path | None) -> list[Row]:
    """Return a row of the job as it is, and one for each advice that it gives."""
    if key.source == "tables":
        frame, classes = from_folder(name, data)
    else:
        try:
            table = table_of(key, 0, data)
        except ModuleNotFoundError as error:
            print(f"{name} left out: {error} (pip install '.[bench]')", file=sys.stderr, flush=True)
            return []
        frame, classes = table.frame, table.classes
    if len(frame) > MAX_ROWS:
        chosen = np.sort(np.random.default_rng(0).choice(len(frame), MAX_ROWS, replace=False))
        frame, classes = frame.iloc[chosen].reset_index(drop=True), classes[chosen]
    found = scores(frame, classes, JOBS[job])
    about = {"group": key.group, "set": name, "job": job, "classes": len(np.unique(classes))}
    pieces = found.pop("advice", [])
    about |= {"before": found["ari"], "k_before": found["k"], "doubt": found["doubt"]}
    rows = [about | {"advice": "", "after": None, "k": None, "note": found["note"]}]
    rows[0]["contradictions"] = len(contradictions(pieces))
    for piece in [*pieces, *together(pieces)]:
        after = scores(frame, classes, merged([JOBS[job], piece.keys]))
        rows.append(
            about
            | {"advice": "all of the page" if piece.warning < 0 else piece.kind}
            | {"after": after["ari"], "k": after["k"], "note": f"{piece.keys} {after['note']}"}
            | {"contradictions": None}
        )
    return rows


def scores(frame: pd.DataFrame, classes: np.ndarray, keys: Mapping[str, Any]) -> Row:
    """Return agreement, clusters, doubt in the headline and advice of a job on a table."""
    import distsvc
    from distsvc.report.sections.headline import doubt

    with TemporaryDirectory() as folder:
        file = Path(folder) / "table.parquet"
        frame.to_parquet(file)
        try:
            run = distsvc.run(file, overrides={"output.path": f"{folder}/out", **keys})
        except DistsvcError as error:
            print(f"{keys}: {error}", file=sys.stderr)
            return {"ari": None, "k": None, "doubt": "", "note": str(error)[:200]}
        labels = run.labels(columns=["row", "label"])
        rows, values = (labels[name].to_numpy() for name in ("row", "label"))
        return {
            "ari": agreement(classes[rows], values)["ari"],
            "k": len(run.report.clusters),
            "doubt": doubt(run.report),
            "note": "",
            "advice": list(pieces_of(run.report)),
        }


def pieces_of(report: Any) -> Iterator[Advice]:
    """Yield the advice of a report: the keys that its warnings name; ", or" separates choices."""
    for number, text in enumerate(report.warnings):
        choices = [dict(keys_in(part)) for part in text.split(", or ")]
        yield from (Advice(number, keys) for keys in choices if keys)


def keys_in(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the keys that the text of a warning advises, with their values."""
    for key, value in re.findall(r"([a-z_]+) = (\[[^]]*\]|'[^']*'|[-\d.]+)", text):
        if key in HOMES:
            yield f"{HOMES[key]}.{key}", tomllib.loads(f"v = {value}")["v"]
    if excluded := re.search(r"To ignore it: --exclude ([^;]+)", text):
        yield "input.exclude", shlex.split(excluded[1])


def merged(several: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the keys of several; lists are joined."""
    found: dict[str, Any] = {}
    for keys in several:
        for key, value in keys.items():
            found[key] = [*found.get(key, []), *value] if key in LISTS else value
    return found


def together(pieces: list[Advice]) -> list[Advice]:
    """Return the first advice of each warning as one; nothing if there is at most one."""
    first = {piece.warning: piece.keys for piece in reversed(pieces)}
    return [Advice(-1, merged(first.values()))] if len(first) > 1 else []


def contradictions(pieces: list[Advice]) -> list[tuple[Advice, Advice]]:
    """Return pairs of advice of different warnings that give a key two values."""
    return [
        (a, b)
        for k, a in enumerate(pieces)
        for b in pieces[k + 1 :]
        if a.warning != b.warning
        for key in a.keys.keys() & b.keys.keys()
        if key not in LISTS and a.keys[key] != b.keys[key]
    ]


def report(rows: list[Row]) -> None:
    """Print the mean change by kind of advice."""
    lines = []
    followed = [row for row in rows if row["advice"]]
    for (job, kind), alike in grouped(followed, ("job", "advice")).items():
        changes = [r["after"] - r["before"] for r in alike if r["after"] is not None]
        lines.append(
            {"job": job, "advice": kind, "tables": len(alike), "failed": len(alike) - len(changes)}
            | {"mean": mean_of(changes), "worst": min(changes, default=None)}
            | {"lower": sum(change < -0.02 for change in changes)}
        )
    show("Change of ARI by advice", lines)
    print("contradictions:", sum(row["contradictions"] or 0 for row in rows))
