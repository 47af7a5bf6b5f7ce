"""Stability: how alike the answers to a set are after a change that should not matter.

A split deals a set's rows at random. It decides halves, the bootstrap and the added rows, and its
number is the fits' seed, too. An index of 1 means two equal answers, and two answers of one cluster
are equal; so it stands beside the NMI of both fits with the classes, and beside the share of pairs
in which both answers are one cluster.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from itertools import chain, combinations, islice, product
from pathlib import Path

import numpy as np

from benchmarks.harness.measure import agreement, by_task, publish
from benchmarks.harness.rows import Row, grouped, mean_of, only, pivot, show
from benchmarks.harness.systems import prepare
from benchmarks.quality.blind import METHODS as BLIND
from benchmarks.quality.given_k import METHODS as GIVEN_K
from benchmarks.quality.without_labels import (
    GROUPS,
    Families,
    about_sample,
    fits_of,
    in_group,
    known,
    means_of_groups,
    names_of,
    sample,
    scored,
    systems_of,
    tried_method,
    with_earlier,
)

STABLE_GROUPS = {
    "tables": in_group("tables"),
    "bsgd": GROUPS["bsgd"],
    "shapes": GROUPS["shapes"],
}
METHODS: Families = {
    **{family: BLIND[family] for family in ("auto", "ours", "imdh", "kmeans")},
    "gmm": GIVEN_K["gmm"],
}
FACTOR = 1.01
"""Of the column that is scaled after standardising."""

KINDS = {
    "halves": ("half", "other half", 1),
    "bootstrap": ("all", "bootstrap", 1),
    "quarter and half": ("quarter", "half", 4),
    "half and all": ("half", "all", 2),
    "quarter and all": ("quarter", "all", 4),
    "copied row": ("all", "copied row", 1),
    "new row": ("all", "new row", 1),
    "scaled column": ("all", "scaled column", 1),
}
"""By kind of comparison: two fits of a split, and k where they are compared on one row in k."""

FIFTHS, SAME_ANSWER = 5, 0.8
"""Parts of the calibration; the index above which two halves have the same answer."""

CHANCES = ("agreement", "agreement_other")

SEEDS = "seeds"
"""The comparison of the fits to all rows, seed by seed."""

ABOUT = ("group", "set", "half", "rows_of_set", "n", "sample_seed", "d", "classes", "method")
INDICES = ("ari", "nmi", "same_k", "flips", "one_cluster")
CLUSTERS_OF = {
    "quarter": ("quarter and all", "k"),
    "half": ("half and all", "k"),
    "all": ("half and all", "k_other"),
}


def stability(options: Namespace) -> None:
    """Answers to halves, bootstraps, more rows and from other seeds, compared: 47 sets.

    The 17 tables of the group `tables`, and the groups bsgd and shapes of `blind`, cut to 3,000
    rows as there. Columns are standardised once, over all these rows, so that halves share a space.
    Each split makes eight fits: to all rows, a half, the other half, a quarter (of the first half),
    a bootstrap, all rows and a copy of one, all rows and the midpoint of one and its nearest other,
    and all rows with one column, which varies, scaled by 1.01. Every fit labels all rows; two are
    compared on all rows, or where the rows grow in number, on those both learned from. k-means and
    the mixture of Gaussians are told the number of classes. HDBSCAN is left out, as scikit-learn's
    can't label other rows. Standard errors are those over splits; pairs of seeds have none. Results
    are written set by set, and what a method had on a set the last time it ran stays until it runs
    there again; the column `day` tells when.
    """
    sets = [name for group in STABLE_GROUPS.values() for name in group]
    names = known(options.sets, sets, "set")
    fits = fits_of(options, METHODS)
    tasks = [(options.data, name, *fit) for name, fit in product(names, fits)]
    begin = partial(prepare, systems_of(fits, METHODS))
    done = by_task(rows_of_split, tasks, options.processes, begin)
    rows: list[Row] = []
    for _ in names:
        of_set = list(chain.from_iterable(islice(done, len(fits))))
        fresh = chain.from_iterable(map(comparisons, grouped(of_set, ("method",)).values()))
        rows = with_earlier(options.out / "stability.csv", list(fresh), sets, names_of(METHODS))
        publish(options.out, "stability", rows)
    report(rows)
    calibrated = fifths(only(rows, method="auto"))
    show("Halves that have the same answer, by what `agreement` says", calibrated)
    if calibrated:
        draw(options.out / "calibration.png", calibrated)


def rows_of_split(data: Path, name: str, what: str, seed: int) -> list[Row]:
    """Return a row for each of a split's fits, with the labels (n,) of all rows of the set.

    A fit that fails has a note instead of labels.
    """
    X, y, _ = sample(data, name)
    about = about_sample(STABLE_GROUPS, data, name) | {"method": what, "seed": seed}
    rows = []
    for fit, (learned, asked) in changed(X, seed).items():
        model, found = tried_method(METHODS, what, learned, about["classes"], seed)
        labels = None if model is None else model.predict(asked)
        nmi = None if labels is None else scored(y, labels)["nmi"]
        note = found["note"] if model is None else ""
        answer = {"labels": labels, "k": found["k"], "nmi": nmi, "note": note}
        answer |= {"agreement": found["agreement"]}
        rows.append(about | {"fit": fit} | answer)
    return rows


def dealt(n: int, seed: int) -> np.ndarray:
    """Return the numbers (n,) of the rows in the order in which a split deals them."""
    return np.random.default_rng(seed).permutation(n)


def changed(X: np.ndarray, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the rows of each fit of a split, and the rows X (n, d) as that fit labels them."""
    n, d = X.shape
    order, random = dealt(n, seed), np.random.default_rng([seed, 1])
    one = X[order[:1]]
    factors = np.ones(d)
    factors[random.choice(np.flatnonzero(X.any(axis=0)))] = FACTOR
    learned = {
        "all": X,
        "half": X[np.sort(order[: n // 2])],
        "other half": X[np.sort(order[n // 2 :])],
        "quarter": X[np.sort(order[: n // 4])],
        "bootstrap": X[np.sort(random.integers(n, size=n))],
        "copied row": np.concatenate([X, one]),
        "new row": np.concatenate([X, (one + nearest_other(X, one)) / 2.0]),
    }
    scaled = X * factors
    return {fit: (rows, X) for fit, rows in learned.items()} | {"scaled column": (scaled, scaled)}


def nearest_other(X: np.ndarray, one: np.ndarray) -> np.ndarray:
    """Return the row (1, d) of X (n, d) that is nearest to `one` (1, d) but not equal to it."""
    distances = np.square(X - one).sum(axis=1)
    return X[[np.where(distances > 0.0, distances, np.inf).argmin()]]


def comparisons(fits: list[Row]) -> list[Row]:
    """Return the rows of the result from all fits of a method to a set: kind by kind and split."""
    found = {(fit["seed"], fit["fit"]): fit for fit in fits}
    seeds = sorted({fit["seed"] for fit in fits})
    n = fits[0]["n"]
    rows = []
    for seed, (kind, (one, other, parts)) in product(seeds, KINDS.items()):
        common = dealt(n, seed)[: n // parts]
        rows.append(compared(kind, found[seed, one], found[seed, other], common))
    pairs = combinations((found[seed, "all"] for seed in seeds), 2)
    return rows + [compared(SEEDS, one, other, np.arange(n)) for one, other in pairs]


def compared(kind: str, one: Row, other: Row, common: np.ndarray) -> Row:
    """Return how two fits agree on the rows with the numbers `common`; no index if one failed."""
    labels = [fit["labels"] for fit in (one, other) if fit["labels"] is not None]
    ari = agreement(*(found[common] for found in labels))["ari"] if len(labels) == 2 else None
    return {key: one[key] for key in ABOUT} | {
        "kind": kind,
        "seed": one["seed"],
        "other_seed": other["seed"],
        "ari": ari,
        "nmi": one["nmi"],
        "nmi_other": other["nmi"],
        "k": one["k"],
        "k_other": other["k"],
        "agreement": one["agreement"],
        "agreement_other": other["agreement"],
        "note": one["note"] or other["note"],
    }


def report(rows: list[Row]) -> None:
    """Print the index set by set, the numbers of clusters, and means over groups and halves."""
    for (group, what), alike in grouped(rows, ("group", "method")).items():
        about = ("set", "n", "d", "classes", "half")
        show(f"ARI of {what} on {group}, means over splits", pivot(alike, about, "kind", "ari"))
    show("Clusters found in a quarter of the rows, in half of them, in all", clusters(rows))
    for row in rows:
        if row["note"]:
            print(f"  {row['set']}, {row['method']}, {row['kind']}, {row['seed']}: {row['note']}")
    lines = means(rows)
    index = ("group", "half", "sets", "method")
    show("ARI, means over the sets", pivot(lines, index, "kind", "ari"))
    for (kind,), alike in grouped(lines, ("kind",)).items():
        show(f"{kind}: means over the sets, with standard errors over splits", alike)


def fifths(rows: list[Row]) -> list[Row]:
    """Return the share of pairs of halves that have the same answer, by fifths of `agreement`."""
    pairs = [row for row in only(rows, kind="halves") if row["ari"] is not None]
    said = [(row[key], row["ari"] > SAME_ANSWER) for row in pairs for key in CHANCES]
    said = [(float(chance), same) for chance, same in said if chance is not None]
    fifth = [min(int(FIFTHS * chance), FIFTHS - 1) for chance, _ in said]
    return [
        {
            "from": number / FIFTHS,
            "fits": fifth.count(number),
            "said": mean_of(said[i][0] for i, one in enumerate(fifth) if one == number),
            "measured": mean_of(float(said[i][1]) for i, one in enumerate(fifth) if one == number),
        }
        for number in sorted(set(fifth))
    ]


def draw(path: Path, calibrated: list[Row]) -> None:
    """Draw the shares of halves that have the same answer over what `agreement` says."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 4.4), layout="constrained")
    plot = figure.subplots()
    plot.plot([0.0, 1.0], [0.0, 1.0], color="0.8", lw=1.0)
    said, share = ([row[key] for row in calibrated] for key in ("said", "measured"))
    plot.plot(said, share, "o-", color="C0")
    for row in calibrated:
        below = row["measured"] > 0.9
        plot.annotate(
            f"{row['fits']} fits",
            (row["said"], row["measured"]),
            (0, -14 if below else 9),
            textcoords="offset points",
            ha="right" if below else "center",
            fontsize=8,
        )
    plot.set(xlim=(0.0, 1.02), ylim=(0.0, 1.02), xlabel="agreement, mean of each fifth")
    plot.set_ylabel("share of halves that have the same answer")
    plot.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    print(f"-> {path}\n", flush=True)


def clusters(rows: list[Row]) -> list[Row]:
    """Return for every set and method the mean numbers of clusters, by how many rows there are."""
    lines = []
    for (name, classes, what), alike in grouped(rows, ("set", "classes", "method")).items():
        found = {
            size: mean_of(row[column] for row in only(alike, kind=kind))
            for size, (kind, column) in CLUSTERS_OF.items()
        }
        lines.append({"set": name, "classes": classes, "method": what} | found)
    return lines


def means(rows: list[Row]) -> list[Row]:
    """Return the means of every kind and method over the sets of each group and half.

    ``nmi`` is that of both fits; ``same_k``, ``flips`` and ``one_cluster`` are the shares of pairs
    with equal numbers of clusters, with one cluster in one answer and several in the other, and
    with one cluster in both.
    """
    of_kind = grouped([row | shares_of(row) for row in rows], ("kind",))
    return [
        {"kind": kind} | line
        for (kind,), alike in of_kind.items()
        for line in means_of_groups(alike, STABLE_GROUPS, INDICES)
    ]


def shares_of(row: Row) -> Row:
    """Return the indices of a pair besides ARI; of the numbers of clusters None if a fit failed."""
    pair = row["k"], row["k_other"]
    known_pair = None not in pair
    single = [k == 1 for k in pair]
    return {
        "nmi": mean_of((row["nmi"], row["nmi_other"])),
        "same_k": int(pair[0] == pair[1]) if known_pair else None,
        "flips": int(single[0] != single[1]) if known_pair else None,
        "one_cluster": int(all(single)) if known_pair else None,
    }
