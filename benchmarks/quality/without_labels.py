"""What the benchmarks of clustering share: sets and methods, fits, scores, means over sets.

A group of sets is cut in halves by name: of the sets of a group every second one, from the first,
is for tuning ("tune"); what was tuned is judged on the others ("confirm").
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from benchmarks.datasets.catalogue import catalogue
from benchmarks.harness.data import SAMPLE_SEED, papers_rows, sampled, standardised
from benchmarks.harness.measure import agreement, n_clusters, timed
from benchmarks.harness.rows import Row, grouped, only, pivot, read_csv
from benchmarks.harness.systems import SYSTEMS, Facts, made

MOST_ROWS = 3200
SAMPLE_ROWS = 3000


def in_group(group: str) -> tuple[str, ...]:
    """Return the names of a group of the catalogue, sorted."""
    return tuple(sorted(name for name, one in catalogue().items() if one.group == group))


VECTORS = (
    "coil20", "digits", "har", "isolet_1560", "letter", "mnist", "optdigits", "pendigits",
    "satimage", "texture",
)  # fmt: skip
GROUPS = {
    "bsgd": (
        "abalone", "aggregation", "breast_cancer", "car", "compound", "d31", "flame", "glass",
        "iris", "jain", "pathbased", "r15", "spiral",
    ),
    "shapes": (
        "atom", "banana", "birch1", "birch2", "cassini", "cluto_t4_8k", "cluto_t5_8k",
        "cluto_t7_10k", "complex8", "dartboard1", "rings", "s_set1", "smile1", "target", "zelnik1",
        "zelnik2", "zelnik4",
    ),
    "shapes2": in_group("shapes2"),
    "tables": in_group("tables"),
    "vectors": tuple(f"{name}, {scale}" for name in VECTORS for scale in ("standard", "unit")),
}  # fmt: skip
"""The 69 sets that are small or cut to a sample, 17 tables, and ten sets of vectors at two scales.

A set of vectors is called by its name and scale: its columns standardised, or its rows of length 1.
"""

ALL = "all"
HALVES = ("tune", "confirm")
SAME = 0.9
"""Least adjusted Rand index of two answers that are the same one."""

COMPONENTS = 30
SCORES = ("nmi", "ari")

Method = tuple[str, Callable[[int], Row]]
Families = dict[str, dict[str, Method]]
"""By family and name a method's system, and its settings for so many rows."""


def method(system: str, **settings: Any) -> Method:
    """Return a method with the same settings for any number of rows."""
    return system, lambda n: settings


def known(wanted: Sequence[str] | None, names: Sequence[str], what: str) -> Sequence[str]:
    """Return the names that are wanted, all by default; end with a message for an unknown one."""
    for name in wanted or []:
        if name not in names:
            sys.exit(f"no {what} {name!r}; there are {', '.join(names)}")
    return wanted or names


def system_of(families: Families, name: str) -> Method:
    """Return a method's system and settings by its name."""
    return next(family[name] for family in families.values() if name in family)


def fits_of(options: Namespace, families: Families) -> list[tuple[str, int | None]]:
    """Return the methods that the options ask for, each with its seeds; None without chance.

    A method that this version or installation does not have is left out, and said so.
    """
    found: list[tuple[str, int | None]] = []
    for family in known(options.methods, list(families), "method"):
        for name, (system, _) in families[family].items():
            why = lacking(system)
            if why:
                print(f"left out: {name}, {why}", file=sys.stderr, flush=True)
                continue
            seeds = range(options.seeds) if SYSTEMS[system].seeded else [None]
            found += [(name, seed) for seed in seeds]
    return found


def with_earlier(
    path: Path, fresh: list[Row], sets: Sequence[str], methods: Sequence[str]
) -> list[Row]:
    """Return rows in the order of sets and methods: fresh ones, and the rest as a file has them.

    What a method had on a set the last time it ran stays until it runs there again; the column
    ``day`` tells when that was.
    """
    done = {(row["set"], row["method"]) for row in fresh}
    earlier = [row for row in read_csv(path) if (row["set"], row["method"]) not in done]
    rows = [r for r in earlier if r["set"] in sets and r["method"] in methods] + fresh
    places = {name: k for k, name in enumerate((*sets, *methods))}
    return sorted(
        rows, key=lambda row: (places[row["set"]], places[row["method"]], row.get("seed") or 0)
    )


def names_of(families: Families) -> list[str]:
    """Return the names of all methods."""
    return [name for family in families.values() for name in family]


def lacking(system: str) -> str:
    """Return why a system can't be made here, or nothing."""
    try:
        made(system, Facts(100, 2, 50), 0)
    except (ImportError, TypeError) as error:
        return str(error)
    return ""


def systems_of(fits: Iterable[tuple[str, int | None]], families: Families) -> list[str]:
    """Return the systems of some fits, each once."""
    return list(dict.fromkeys(system_of(families, name)[0] for name, _ in fits))


@lru_cache(maxsize=1)
def sample(data: Path, name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return rows (n, d) of a set, prepared, their labels (n,) and how many the set has."""
    base, _, scale = name.partition(", ")
    X, y = bundled_digits() if base == "digits" else papers_rows(base, data)
    size = len(X)
    X, y = sampled(X, y, SAMPLE_ROWS if size > MOST_ROWS else None)
    return prepared(base, scale, X), y, size


def bundled_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's handwritten digits (1797, 64), and which each is (1797,)."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X, y


def prepared(name: str, scale: str, X: np.ndarray) -> np.ndarray:
    """Return the rows X (n, d) of a set as all methods get them: standardised, or of length 1.

    mnist's pixels, many being constant or nearly so, are divided by 255 and turned to their 30
    leading principal components, unwhitened, where it is no set of vectors.
    """
    if scale == "unit":
        return X / np.linalg.norm(X, axis=1, keepdims=True)
    if scale or name != "mnist":
        return standardised(X)
    from sklearn.decomposition import PCA

    pca = PCA(COMPONENTS, svd_solver="covariance_eigh")
    return np.ascontiguousarray(pca.fit_transform(X / 255.0))


def about_sample(groups: Mapping[str, Sequence[str]], data: Path, name: str) -> Row:
    """Return the columns of the result that tell a set, its group and its sample."""
    X, y, size = sample(data, name)
    group = next(group for group, names in groups.items() if name in names)
    return {
        "group": group,
        "set": name,
        "half": HALVES[sorted(groups[group]).index(name) % 2],
        "rows_of_set": size,
        "n": len(X),
        "sample_seed": SAMPLE_SEED if len(X) < size else None,
        "d": X.shape[1],
        "classes": len(np.unique(y)),
    }


def fit_method(
    families: Families, name: str, X: np.ndarray, classes: int, seed: int | None
) -> tuple[Any, Row]:
    """Fit a method by its name; return the model, and the columns k, agreement, seconds, note."""
    system, settings = system_of(families, name)
    model = made(system, Facts(len(X), classes, 0), seed or 0, **settings(len(X)))
    fit = timed(model.fit, X)
    said = fit.warnings if name == "ours" else []
    return model, {
        "k": getattr(model, "n_clusters_", n_clusters(model.labels_)),
        "agreement": getattr(model, "agreement_", None),
        "seconds": fit.seconds,
        "note": "; ".join(said),
    }


def tried_method(
    families: Families, name: str, X: np.ndarray, classes: int, seed: int | None
) -> tuple[Any, Row]:
    """Return what `fit_method` does; where the fit fails, no model, and why in the note."""
    try:
        return fit_method(families, name, X, classes, seed)
    except (ValueError, ArithmeticError) as error:
        empty = dict.fromkeys(("k", "agreement", "seconds"))
        return None, empty | {"note": f"{type(error).__name__}: {error}"}


def scored(y: np.ndarray, labels: np.ndarray) -> Row:
    """Return NMI (arithmetic) and ARI of a clustering."""
    found = agreement(y, labels)
    return {"nmi": found["nmi"], "ari": found["ari"]}


def mean_and_error(rows: list[Row], index: str) -> tuple[float | None, float | None]:
    """Return the mean over sets and seeds of an index, and its standard error over seeds.

    Fits without the index are left out. The error is that of the means over the sets, one for
    every seed; None where sets differ in their seeds.
    """
    rows = [row for row in rows if row[index] is not None]
    of_set = [[row[index] for row in alike] for alike in grouped(rows, ("set",)).values()]
    of_seed = [[row[index] for row in alike] for alike in grouped(rows, ("seed",)).values()]
    if not rows:
        return None, None
    complete = len(of_seed) > 1 and all(len(values) == len(of_set) for values in of_seed)
    error = stdev(map(mean, of_seed)) / len(of_seed) ** 0.5 if complete else None
    return mean(map(mean, of_set)), error


def mean_scores(rows: list[Row], indices: Iterable[str] = SCORES) -> Row:
    """Return means over the sets of the indices, each with its standard error over seeds."""
    found: Row = {}
    for index in indices:
        found[index], found[f"{index}_error"] = mean_and_error(rows, index)
    return found


def parts(rows: list[Row], groups: Iterable[str]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows by group and half: each, both halves together, and all groups together."""
    found = {}
    for group, half in product((*groups, ALL), (ALL, *HALVES)):
        alike = [r for r in rows if group in (ALL, r["group"]) and half in (ALL, r["half"])]
        if alike:
            found[group, half] = alike
    return found


def means_of_groups(
    rows: list[Row], groups: Iterable[str], indices: Sequence[str] = SCORES
) -> list[Row]:
    """Return the means of every method over the sets of each group, both halves and each."""
    lines = []
    methods = list(dict.fromkeys(row["method"] for row in rows))
    for (group, half), alike in parts(rows, groups).items():
        for name in methods:
            if mine := only(alike, method=name):
                sets = len({row["set"] for row in mine})
                about = {"group": group, "sets": sets, "half": half, "method": name}
                lines.append(about | mean_scores(mine, indices))
    return lines


def common(rows: list[Row]) -> list[Row]:
    """Return the rows of those sets on which every method has a result."""
    rows = [row for row in rows if row["nmi"] is not None]
    methods = {row["method"] for row in rows}
    found = {name: {r["method"] for r in mine} for (name,), mine in grouped(rows, ("set",)).items()}
    return [row for row in rows if found[row["set"]] == methods]


def by_set(rows: list[Row], group: str, index: str) -> list[Row]:
    """Return one row for every set of a group, with the methods' means over seeds side by side."""
    about = ("set", "n", "d", "classes", "half")
    return pivot(only(rows, group=group), about, "method", index)


def pairs_of_seeds(answers: Mapping[int, np.ndarray]) -> Row:
    """Return how the answers to a set, labels (n,) by seed, agree pair by pair.

    Returns
    -------
    dict
        ``seeds``, ``pairs``, ``different``: pairs whose adjusted Rand index is below `SAME`;
        ``least`` and ``mean`` of that index.

    """
    found = [agreement(a, b)["ari"] for a, b in combinations(answers.values(), 2)]
    return {
        "seeds": len(answers),
        "pairs": len(found),
        "different": sum(ari < SAME for ari in found),
        "least": min(found),
        "mean": mean(found),
    }


def shares(rows: list[Row], groups: Iterable[str]) -> list[Row]:
    """Return the share of pairs that are different, methods side by side, by group and half."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for (group, half), alike in parts(rows, groups).items():
        line: Row = {"group": group, "half": half, "sets": len({row["set"] for row in alike})}
        for name in methods:
            mine = only(alike, method=name)  # none, where the method was not asked
            pairs = sum(row["pairs"] for row in mine)
            line[name] = sum(row["different"] for row in mine) / pairs if pairs else None
        lines.append(line)
    return lines
