"""Clustering without labels, large tables: ours beside HDBSCAN and k-means.

Every method gets the prepared columns and nothing else, but k-means the number of classes. Labels
only score. HDBSCAN has no seed, the others have several. Standard errors are those over seeds.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.harness.data import papers_rows
from benchmarks.harness.measure import alone, limited, publish
from benchmarks.harness.rows import Row, only, pivot, show
from benchmarks.harness.runs import work_folder
from benchmarks.harness.systems import warm_up
from benchmarks.quality.without_labels import (
    Families,
    fit_method,
    fits_of,
    known,
    mean_and_error,
    mean_scores,
    method,
    names_of,
    prepared,
    scored,
    system_of,
    with_earlier,
)

TABLES = (
    "kddcup", "letter", "magic", "mnist", "musk", "optdigits", "page_blocks", "pendigits", "ring",
    "satimage", "shuttle", "texture", "twonorm", "waveform_21",
)  # fmt: skip
LIMIT_S = 600
METHODS: Families = {
    "ours": {"ours": method("level tree")},
    "imdh": {"iMDH": method("iMDH, ours")},
    "auto": {"auto": method("auto")},
    "hdbscan": {
        "HDBSCAN 5": method("HDBSCAN"),
        "HDBSCAN n//200": ("HDBSCAN", lambda n: {"min_cluster_size": n // 200}),
    },
    "kmeans": {"k-means": method("k-means", n_init=3, init="k-means++")},
}
FAMILIES = ("ours", "iMDH")
"""The methods between which "auto" chooses."""

BELOW = 0.02
"""By how much "auto" may be below the worse of the two on a table."""

MEASURED = ("nmi", "ari", "k", "agreement", "seconds", "peak_mb", "before_mb", "note")
ABOUT = ("set", "n", "d", "classes")


def blind_large(options: Namespace) -> None:
    """Clustering without labels: 14 large tables whole.

    mnist's pixels are not standardised, many being constant or nearly so, but divided by 255 and
    turned to their 30 leading principal components, unwhitened. Rows that HDBSCAN calls noise are a
    cluster of their own. Every fit is a process of its own, with the threads it asks for, and is
    stopped after ten minutes. Seconds are those of the fit alone, after a fit to some random rows;
    the peak memory is the process's, the table included, and stands beside that from before the
    fit. What a method had on a table the last time it ran stays in the result until it runs there
    again; the column `day` tells when. The choice of "auto" stands beside the worse and the better
    of the two families between which it chooses.
    """
    names = known(options.sets, TABLES, "set")
    fits = fits_of(options, METHODS)
    rows: list[Row] = []
    with work_folder(options.work) as work:
        for name in names:
            about = alone(prepare_table, options.data, name, work)
            fresh = [row_of_fit(about, what, seed, work) for what, seed in fits]
            path = options.out / "blind_large.csv"
            rows = with_earlier(path, fresh, TABLES, names_of(METHODS))
            publish(options.out, "blind_large", rows)
    report(rows)


def prepare_table(data: Path, name: str, work: Path) -> Row:
    """Write a table's rows and labels for the fits, and return its columns of the result."""
    X, y = papers_rows(name, data)
    X = prepared(name, "", X)
    np.save(work / "X.npy", X)
    np.save(work / "y.npy", y)
    return {"set": name, "n": len(X), "d": X.shape[1], "classes": len(np.unique(y))}


def row_of_fit(about: Row, what: str, seed: int | None, work: Path) -> Row:
    """Return the row of the result that is about one fit."""
    found = limited(fit_and_score, LIMIT_S, work, what, about["classes"], seed)
    row = about | {"method": what, "seed": seed} | dict.fromkeys(MEASURED) | found
    score = "-" if row["nmi"] is None else f"NMI {row['nmi']:.3f}, {row['seconds']:.1f} s"
    said = f"{row['set']}, {what}, {seed}: {score} {row['note'] or ''}"
    print(said, file=sys.stderr, flush=True)
    return row


def fit_and_score(
    ready: Callable[[], None], work: Path, what: str, classes: int, seed: int | None
) -> Row:
    X, y = np.load(work / "X.npy"), np.load(work / "y.npy")
    warm_up(system_of(METHODS, what)[0], X.shape[1])
    ready()
    model, found = fit_method(METHODS, what, X, classes, seed)
    return scored(y, model.labels_) | found


def report(rows: list[Row]) -> None:
    """Print the tables, what did not end, and the means."""
    for title, index in (
        ("NMI", "nmi"),
        ("ARI", "ari"),
        ("Clusters", "k"),
        ("Seconds of a fit", "seconds"),
        ("Peak memory, MB", "peak_mb"),
    ):
        show(title, pivot(rows, ABOUT, "method", index))
    agreed = [row for row in rows if row["agreement"] is not None]
    show("Agreement of ours", pivot(agreed, ABOUT, "method", "agreement"))
    for row in rows:
        if row["nmi"] is None:
            print(f"  {row['set']}, {row['method']}: {row['note']}")
    bar = "bars: auto .48 (goal .52)"
    show(f"Means over the tables where a fit ended; {bar}", means_of_tables(rows))
    report_choice(pivot(rows, ("set",), "method", "nmi"))


def report_choice(tables: list[Row]) -> None:
    """Print NMI of the two families on every table, and of the choice between them."""
    lines = [choice(row) for row in tables if None not in map(row.get, FAMILIES)]
    show(f"NMI of the two families; bar: auto at most {BELOW} below the worse", lines)
    for name in ("worse", "better", "auto"):
        found = [line[name] for line in lines if line[name] is not None]
        if found:
            print(f"  {name}: {mean(found):.4f} in the mean of {len(found)} tables")
    if any(line["auto"] is not None for line in lines):
        low = [line["set"] for line in lines if line["too_low"]]
        print(f"  tables on which auto is too low: {', '.join(low) or 'none'}; bar: none")


def choice(row: Row) -> Row:
    """Return the worse and the better family on a table, and how the choice stands to them."""
    ours, imdh = map(row.get, FAMILIES)
    auto, worse = row.get("auto"), min(ours, imdh)
    less = None if auto is None else auto - worse
    return {
        "set": row["set"],
        "worse_is": FAMILIES[imdh < ours],
        "worse": worse,
        "better": max(ours, imdh),
        "auto": auto,
        "auto_less_worse": less,
        "too_low": None if less is None else int(less < -BELOW),
    }


def means_of_tables(rows: list[Row]) -> list[Row]:
    """Return means over all tables, without mnist, and over those where every method ended."""
    rows = [row for row in rows if row["nmi"] is not None]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    by_set = {name: {row["method"] for row in only(rows, set=name)} for name in TABLES}
    choices = {
        "all": TABLES,
        "without mnist": [name for name in TABLES if name != "mnist"],
        "ended by all": [name for name in TABLES if by_set[name] == set(methods)],
    }
    lines = []
    for choice, names in choices.items():
        for name in methods:
            alike = [row for row in only(rows, method=name) if row["set"] in names]
            lines.append(
                {"tables": choice, "method": name, "ended": len({row["set"] for row in alike})}
                | mean_scores(alike)
                | {"seconds": mean_and_error(alike, "seconds")[0]}
                | {"peak_mb": max((row["peak_mb"] for row in alike), default=None)}
            )
    return lines
