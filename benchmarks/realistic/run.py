"""Clusters of tables as users have them, as a share of the best possible agreement."""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness.measure import agreement, measured, n_clusters, publish, timed
from benchmarks.harness.rows import Row, grouped, mean_of, pivot, show
from benchmarks.harness.systems import prepare
from benchmarks.quality.without_labels import known, with_earlier
from benchmarks.realistic.methods import METHODS, TableMethod
from benchmarks.realistic.suite import GROUPS, MADE_GROUPS, TableKey, keys_of, table_of
from benchmarks.realistic.tables import HALVES, KnownTable

BASELINE = "k-means K"
MAX_LOSS = 0.05
"""Largest loss of adjusted Rand index against k-means that is not counted."""
NOTHING = dict.fromkeys(("ari", "nmi", "k", "smallest", "cpu_seconds"))


def realistic(options: Namespace) -> None:
    """Clusters of tables as users have them, as a share of the best possible agreement.

    The tables are made: flags, categories, counts, rounded and missing values, with classes and
    with one class only. With `--data`, real tables are used, too. Methods whose name ends in K are
    given the number of classes. Methods that are slow get a sample of 2,000 rows of larger tables.
    The results of an earlier run stay in the file until a method runs on the table again.
    """
    groups = known(options.group, GROUPS, "group") if options.group else MADE_GROUPS
    if options.data and not options.group:
        groups = GROUPS
    methods = installed(known(options.methods, list(METHODS), "method"))
    keys = [key for key in keys_of(groups) if wanted(key, options.sets)]
    tasks = [
        (key.name, key, seed, methods, options.half, options.data)
        for key in keys
        for seed in range(1 if key.source == "real" else options.seeds)
    ]
    rows = measured(rows_of_table, tasks, options.processes, partial(prepare, ()))
    if not rows:
        sys.exit("no table has such a name, group and half")
    names = list(dict.fromkeys(key.name for key in keys_of()))
    fresh = {(row["set"], row["seed"]) for row in rows}
    rows = with_earlier(options.out / "realistic.csv", rows, names, list(METHODS))
    publish(options.out, "realistic", rows)
    report([row for row in rows if (row["set"], row["seed"]) in fresh])


def wanted(key: TableKey, parts: Iterable[str] | None) -> bool:
    """Return True if the name of a table contains one of the parts, or none are given."""
    return not parts or any(part in key.name for part in parts)


def installed(names: Iterable[str]) -> list[str]:
    """Return the methods whose modules are installed; print a line for each of the others."""
    for name in names:
        if METHODS[name].missing():
            text = f"{name} left out: install {METHODS[name].module} (pip install '.[bench]')"
            print(text, file=sys.stderr, flush=True)
    return [name for name in names if not METHODS[name].missing()]


def rows_of_table(
    name: str, key: TableKey, seed: int, methods: list[str], half: str | None, data: Path | None
) -> list[Row]:
    """Return a row of the result for each method on a table; none if it is of the other half."""
    try:
        table = table_of(key, seed, data)
    except ModuleNotFoundError as error:
        print(f"{name} left out: {error} (pip install '.[bench]')", file=sys.stderr, flush=True)
        return []
    if half not in (None, table.half):
        return []
    about = {
        "group": table.group,
        "source": key.source,
        "set": table.name,
        "kind": table.kind,
        "traits": "|".join(table.traits),
        "half": table.half,
        "seed": seed,
        "n": len(table.classes),
        "d": table.frame.shape[1],
        "classes": table.n_classes,
        "ceiling": table.ceiling,
        "ceiling_ari": table.ceiling_ari,
        "ceiling_nmi": table.ceiling_nmi,
    }
    return [about | scores(table, METHODS[method]) for method in methods]


def scores(table: KnownTable, method: TableMethod) -> Row:
    """Return the scores of a method on a table; of one that fails, the error in the note."""
    frame, classes = table.frame, table.classes
    if method.max_rows is not None and len(classes) > method.max_rows:
        random = np.random.default_rng(table.seed)
        sample = np.sort(random.choice(len(classes), method.max_rows, replace=False))
        frame, classes = frame.iloc[sample].reset_index(drop=True), classes[sample]
    given = table.n_classes if method.given_k else None
    about = {"method": method.name, "fit_rows": len(classes)}
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            fit = timed(method.fit, frame, given, table.seed)
    except Exception as error:  # one failure of a peer does not end the run
        print(f"{table.name}, {method.name}: {error}", file=sys.stderr, flush=True)
        return about | NOTHING | {"note": f"{type(error).__name__}: {error}"[:200]}
    labels = np.asarray(fit.value)
    alike = agreement(classes, labels)
    return about | {
        "ari": alike["ari"],
        "nmi": alike["nmi"],
        "k": n_clusters(labels),
        "smallest": smallest_class_overlap(classes, labels),
        "cpu_seconds": fit.cpu_seconds,
        "note": "",
    }


def smallest_class_overlap(classes: np.ndarray, labels: np.ndarray) -> float:
    """Return the highest Jaccard index of the smallest class with a cluster."""
    values, counts = np.unique(classes, return_counts=True)
    mine = classes == values[counts.argmin()]
    clusters = [labels == label for label in np.unique(labels)]
    return max(float((mine & one).sum() / (mine | one).sum()) for one in clusters)


def share_of_ceiling(rows: Iterable[Row]) -> float | None:
    """Return the mean adjusted Rand index divided by the mean ceiling; None without rows."""
    both = [(row["ari"], row["ceiling_ari"]) for row in rows if row["ari"] is not None]
    return sum(ari for ari, _ in both) / sum(top for _, top in both) if both else None


def report(rows: list[Row]) -> None:
    """Print all tables of the result."""
    generated = [row for row in rows if row["group"] == "generated"]
    added = [row for row in rows if row["group"] == "added"]
    show("Generated tables: share of the ceiling ARI", shares(generated, "half", HALVES))
    show("Generated tables: share by domain", shares(generated, "kind"))
    show("Generated tables: share by trait", shares(by_trait(generated), "trait")[:-1])
    show("Added kinds: share of the ceiling ARI", shares(added, "half", HALVES))
    show("Added kinds: share by kind", shares(added, "kind"))
    wide = [row for row in rows if row["group"] == "wide" and row["classes"] > 1]
    show("Wide tables: share of the ceiling ARI", shares(wide, "kind"))
    rare = [row for row in added if row["kind"] == "rare-class"]
    show(
        "Class of 1 %: highest Jaccard index with a cluster",
        pivot(rare, ("set",), "method", "smallest"),
    )
    show("Tables of one class that are recognised", one_class(rows))
    show(f"Tables more than {MAX_LOSS} ARI below {BASELINE}", losses(rows))
    real = [row for row in rows if row["group"] == "real"]
    for index in ("nmi", "ari"):
        show(f"Real tables: {index.upper()}", pivot(real, ("set", "half"), "method", index))
    show("Real tables: means", means(real))


def by_trait(rows: Iterable[Row]) -> list[Row]:
    """Return each row once for each of its traits, with the column `trait`."""
    return [row | {"trait": trait} for row in rows for trait in row["traits"].split("|")]


def shares(rows: list[Row], column: str, order: Iterable[str] = ()) -> list[Row]:
    """Return shares of the ceiling by the values of a column, and of all; methods side by side."""
    if not rows:
        return []
    values = list(order or sorted({r[column] for r in rows}))
    lines = []
    for value in (*values, "all"):
        chosen = [row for row in rows if value in (row[column], "all")]
        line: Row = {column: value, "tables": len({(r["set"], r["seed"]) for r in chosen})}
        line["ceiling"] = mean_of(row["ceiling_ari"] for row in chosen)
        by_method = {key: alike for (key,), alike in grouped(rows, ("method",)).items()}
        for method in by_method:
            line[method] = share_of_ceiling(row for row in chosen if row["method"] == method)
        lines.append(line)
    return lines


def one_class(rows: Iterable[Row]) -> list[Row]:
    """Count one-class tables with at most one cluster, by method and source."""
    chosen = [r for r in rows if r["classes"] == 1 and not r["method"].endswith(" K")]
    lines = []
    for (method,), alike in grouped(chosen, ("method",)).items():
        line: Row = {"method": method}
        for name, source in (
            ("generator", "generated"),
            ("new kinds", "one-class"),
            ("wide", "wide"),
        ):
            for half in HALVES:
                some = [r for r in alike if (r["source"], r["half"]) == (source, half)]
                found = sum(r["k"] is not None and r["k"] <= 1 for r in some)
                line[f"{name}, {half}"] = f"{found} of {len(some)}"
        lines.append(line)
    return lines


def losses(rows: Iterable[Row]) -> list[Row]:
    """Return by group how many tables a method given K clusters worse than k-means does."""
    chosen = [r for r in rows if r["method"].endswith(" K") and r["classes"] > 1]
    best = {(r["set"], r["seed"]): r["ari"] for r in chosen if r["method"] == BASELINE}
    lines = []
    for (group, method), alike in grouped(chosen, ("group", "method")).items():
        pairs = [
            (r["ari"], best[r["set"], r["seed"]])
            for r in alike
            if r["ari"] is not None and best.get((r["set"], r["seed"])) is not None
        ]
        if method != BASELINE and pairs:
            below = sum(ari < other - MAX_LOSS for ari, other in pairs)
            lines.append({"group": group, "method": method, "below": below, "tables": len(pairs)})
    return lines


def means(rows: list[Row]) -> list[Row]:
    """Return mean NMI and ARI by method and half."""
    lines = []
    for half in (*HALVES, "all"):
        chosen = [row for row in rows if half in (row["half"], "all")]
        for (method,), alike in grouped(chosen, ("method",)).items():
            line = {"half": half, "method": method, "tables": len(alike)}
            line |= {index: mean_of(row[index] for row in alike) for index in ("nmi", "ari")}
            lines.append(line)
    return lines
