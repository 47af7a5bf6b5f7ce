"""The suites of fits: which systems, sets, settings and repetitions, as the papers say.

A suite is two lists of fits. The second is made from the rows of the first: the best point of the
grid, by NMI, is fit again on all rows, with other seeds, and scored in full.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

from benchmarks.datasets.catalogue import catalogue
from benchmarks.harness.data import split_of
from benchmarks.harness.rows import Row
from benchmarks.harness.systems import POWERS, SYSTEMS, Point, System
from benchmarks.papers.fits import Fit

CHOSEN_BY = "normalized_mutual_information"

BSGD_SETS = (
    "aggregation", "breast_cancer", "compound", "flame", "glass", "iris", "jain", "pathbased",
    "r15", "spiral", "d31", "abalone", "car", "musk", "shuttle",
)  # fmt: skip
FEWER_ROWS = {"musk": 4}
"""What the rows of such a grid are divided by: it has 166 columns."""

AS_PRINTED = {
    f"{name}, as printed": name for name in ("SGD-LMOC", "BSGD-R", "BSGD-PNN", "BSGD-PRN")
}
"""Systems that are the papers' method alone, and the paper's column that each repeats."""

BSGD_SYSTEMS = (
    "SVC", "SVC, Algorithm 3", "FSVC", *AS_PRINTED, "SGD-LMOC", "BSGD-R", "BSGD-PNN", "BSGD-PRN",
    "BSGD-merge", "level tree", "c-means", "fuzzy c-means", "HDBSCAN",
)  # fmt: skip

IMDH_SETS = (
    "churn", "waveform_21", "waveform_40", "phoneme", "page_blocks", "texture", "optdigits",
    "satimage", "musk", "ann_thyroid", "ring", "twonorm", "mushroom", "agaricus_lepiota",
    "coil2000", "pendigits", "nursery", "magic", "letter", "krkopt", "adult", "shuttle",
    "connect_4", "mnist", "fars", "sleep", "kddcup",
)  # fmt: skip
"""Table 2 of Hofmeyr (2021) in its order, less Yale, isolet and smartphone, of which there are only
other versions; its clean2 is musk."""

IMDH_SYSTEMS = (
    "iMDH", "iMDH_k", "BICO", "k-means", "SPDC", "dePDDP", "iMDH, ours", "iMDH_k, ours",
)  # fmt: skip
SENSITIVE_SETS = ("optdigits", "pendigits", "isolet_1560", "shuttle")
"""Section 4.2; isolet is a quarter of the paper's."""

LARGE_SETS = ("mnist", "fars", "sleep", "kddcup")
LARGE_REPETITIONS = 3
SWEPT = {
    "depth": tuple(range(3, 13)),
    "bandwidth": (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0),
    "alpha": (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0),
}
"""Figures 4 and 5, 6 and 7, 8 and 9."""


@dataclass(frozen=True)
class SuiteOptions:
    """What of a suite is run.

    Attributes
    ----------
    sets : tuple of str
        Data sets; all of the suite when empty.
    repetitions : int or None
        Seeds; None for the papers' number.
    quick : bool
        A few small sets, few settings and few repetitions.
    limit_s : float
        Seconds after which a fit of `peers` is ended.

    """

    sets: tuple[str, ...] = ()
    repetitions: int | None = None
    quick: bool = False
    limit_s: float = 300.0

    def of(self, names: Iterable[str], quick: Iterable[str]) -> list[str]:
        """Return the names that are chosen among those of a suite, of which some are quick."""
        names = list(names)
        if self.sets:
            return [name for name in names if name in self.sets]
        return list(quick) if self.quick else names

    def seeds(self, usual: int, quick: int = 2) -> range:
        """Return the seeds of the repetitions."""
        return range(self.repetitions or (quick if self.quick else usual))


@dataclass(frozen=True)
class Suite:
    """A suite: its sets, its first fits, and those that follow from their rows."""

    sets: tuple[str, ...]
    first: Callable[[SuiteOptions], list[Fit]]
    then: Callable[[SuiteOptions, list[Row]], list[Fit]] | None = None


def bsgd_grid(options: SuiteOptions) -> list[Fit]:
    """Return the fits of the grid of Pham, Le and Dang (2017), section 5.2."""
    powers = POWERS[1::2] if options.quick else POWERS
    fits = []
    for name, system in product(reversed(_bsgd_sets(options)), BSGD_SYSTEMS):
        entry = SYSTEMS[system]
        points = [p for p in entry.grid if p["gamma"] in powers and p["C"] in {*powers, 1.0}]
        sweep = entry.sweep[:: 11 if options.quick and len(entry.sweep) > 2 else 1]
        most = entry.grid_rows and entry.grid_rows // FEWER_ROWS.get(name, 1)
        fits += [
            Fit("grid", name, system, "oracle", point, 0, list(sweep), most, split_of(name))
            for point in points
        ]
    return fits


def bsgd_final(options: SuiteOptions, rows: list[Row]) -> list[Fit]:
    """Return the fits of the best points, and those without classes, on all rows.

    Seeds begin at 1: seed 0 chose the points, and would score them too high.
    """
    best = best_points(rows)
    fits = []
    for name, system in product(reversed(_bsgd_sets(options)), BSGD_SYSTEMS):
        entry = SYSTEMS[system]
        chosen = best.get((name, system), entry.oracle)
        for protocol, point in (("oracle", chosen), ("blind", entry.blind)):
            fits += [
                Fit(
                    protocol, name, system, protocol, point, seed,
                    split=split_of(name), whole=True,
                )
                for seed in _seeds(entry, (1 + seed for seed in options.seeds(5)))
                if point is not None
            ]  # fmt: skip
    return fits


def best_points(rows: list[Row]) -> dict[tuple[str, str], Point]:
    """Return the point with the highest NMI for every set and system; a failed fit counts as 0."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["experiment"] == "grid":
            found[row["set"], row["system"]][row["point"]] = row.get(CHOSEN_BY) or 0.0
    return {key: json.loads(max(points, key=points.__getitem__)) for key, points in found.items()}


def imdh_fits(options: SuiteOptions) -> list[Fit]:
    """Return the fits of Table 2 and Figures 2 to 9 of Hofmeyr (2021), section 4."""
    names = options.of(IMDH_SETS, ("churn", "page_blocks", "optdigits", "pendigits", "twonorm"))
    fits = []
    for name, system in product(reversed(names), IMDH_SYSTEMS):
        entry = SYSTEMS[system]
        protocol, point = entry.alone
        fits += [
            Fit("table 2", name, system, protocol, point, seed)
            for seed in _seeds(entry, _repetitions(options, name))
        ]
    return fits + sensitivity_fits(options)


def sensitivity_fits(options: SuiteOptions) -> list[Fit]:
    """Return the fits of Figures 4 to 9."""
    names = options.of(SENSITIVE_SETS, ("pendigits",))
    fits = []
    for name, (figure, values) in product(names, SWEPT.items()):
        few = values[:: 3 if options.quick else 1]
        for value, system in product(few, ("iMDH", "iMDH_k")):
            entry = SYSTEMS[system]
            protocol, point = entry.alone
            if figure == "depth" and protocol == "oracle" and not _deep_enough(name, value):
                continue
            fits += [
                Fit(figure, name, system, protocol, point | {figure: value}, seed)
                for seed in _seeds(entry, _repetitions(options, name))
            ]
    return fits


def _deep_enough(name: str, depth: float) -> bool:
    """Return True if a tree of that depth has a leaf for every class of a set."""
    return 2 ** (depth - 1) >= len(catalogue()[name].class_counts)


SUITES = {
    "bsgd": Suite(BSGD_SETS, bsgd_grid, bsgd_final),
    "imdh": Suite((*IMDH_SETS, "isolet_1560"), imdh_fits),
}
"""The suites of fits by name; `linear` and `peers` are measured one fit at a time."""


def _bsgd_sets(options: SuiteOptions) -> list[str]:
    return options.of(BSGD_SETS, ("iris", "flame", "jain", "compound", "r15"))


def _repetitions(options: SuiteOptions, name: str) -> range:
    """Return the seeds on one set: 20 orders of the rows as in the paper, fewer of large sets."""
    seeds = options.seeds(20)
    return seeds[:LARGE_REPETITIONS] if name in LARGE_SETS else seeds


def _seeds(entry: System, seeds: Iterable[int]) -> list[int]:
    return list(seeds) if entry.seeded else [0]
