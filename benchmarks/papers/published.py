"""What the papers print, and which of it can't be right.

The figures are in ``published.toml`` beside this file. Which ones are impossible is computed from
the class counts of the data sets; what only reading shows is written down there as a slip.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import comb
from pathlib import Path
from typing import Any

from benchmarks.datasets.catalogue import catalogue

Figure = tuple[str, str]
"""A set and a system."""

RANGES: Mapping[str, tuple[float, float]] = {
    "purity": (0.0, 1.0),
    "rand_index": (0.0, 1.0),
    "normalized_mutual_information": (0.0, 1.0),
    "adjusted_rand_index": (-1.0, 1.0),
}
"""Lowest and highest value of an index; of the others 0 and infinity."""


@dataclass(frozen=True)
class Slip:
    """Something printed that can't be meant, and why."""

    index: str
    reason: str
    sets: Mapping[str, str] = field(default_factory=dict)
    """The sets it is about, each with the set whose figure is printed; none means the table."""
    systems: tuple[str, ...] = ()


def papers() -> tuple[str, ...]:
    """Return the key of every paper."""
    return tuple(_tables())


def cited(paper: str) -> str:
    """Return authors and year, ``Pham, Le and Dang (2017)``."""
    one = _paper(paper)
    *others, last = one["authors"]
    return f"{' and '.join([*([', '.join(others)] if others else []), last])} ({one['year']})"


def title_of(paper: str) -> str:
    """Return the title of a paper."""
    return _paper(paper)["title"]


def systems(paper: str) -> tuple[str, ...]:
    """Return the systems that a paper compares, in its order."""
    return tuple(_paper(paper)["systems"])


def indices(paper: str) -> dict[str, int]:
    """Return the number of the table that prints each index of a paper."""
    return {index: _paper(paper)["tables"][index] for index in _paper(paper)["values"]}


def sizes(paper: str) -> dict[str, tuple[int, int, int]]:
    """Return rows, features and classes of the sets as a paper prints them; it may be wrong."""
    return {name: (n, d, k) for name, (n, d, k) in _paper(paper).get("sizes", {}).items()}


def printed(paper: str, index: str) -> dict[Figure, float]:
    """Return the figures of a table by set and system, rows in the order of the paper.

    Parameters
    ----------
    paper
        ``pham-2017``, ``pham-2016`` or ``hofmeyr-2021``.
    index
        A key of `distsvc.metrics.INDICES`, or ``training_seconds``, ``clustering_seconds`` or
        ``total_seconds``.

    Returns
    -------
    dict
        Percentages as shares; empty where the paper doesn't print the index.

    Raises
    ------
    KeyError
        There is no such paper.

    """
    one = _paper(paper)
    unit = 100.0 if one.get("percent") else 1.0
    return {
        (name, system): value / unit
        for name, values in one["values"].get(index, {}).items()
        for system, value in zip(one["systems"], values, strict=True)
    }


def slips(paper: str, index: str) -> list[Slip]:
    """Return what is known to be misprinted about the table of an index."""
    found = [Slip(**one) for one in _paper(paper).get("slips", ())]
    return [slip for slip in found if slip.index == index]


def impossible(paper: str, index: str) -> dict[Figure, str]:
    """Return the figures of a table that can't be right, each with the reason.

    A figure counts as what it may have been before it was rounded. Purity is compared with the
    share of the largest class and the Rand index with the least that any clustering has, on the
    rows that the paper uses; other indices only with the range of the index.
    """
    found: dict[Figure, str] = {}
    lowest, highest = RANGES.get(index, (0.0, float("inf")))
    for (name, system), value in printed(paper, index).items():
        least, why = lowest, f"{index} is never below {lowest:g}"
        counts = class_counts(paper, name)
        if counts is not None and index == "purity":
            least, why = least_purity(counts), "the largest class has a share of {:.3f}"
        if counts is not None and index == "rand_index":
            least, why = least_rand_index(counts), "no clustering of these classes is below {:.3f}"
        if value < least - rounding(paper):
            found[name, system] = why.format(least)
        elif value > highest + rounding(paper):
            found[name, system] = f"{index} is never above {highest:g}"
    for slip in slips(paper, index):
        for name, other in slip.sets.items():
            for system in slip.systems:
                found[name, system] = slip.reason.format(other=other)
    return found


def trivial(paper: str) -> dict[Figure, str]:
    """Return the Rand indices of a paper that need no clustering, each with what has them too.

    One cluster of all rows agrees with the classes on the pairs of one class, every row alone on
    the pairs of two; a printed figure that equals one of these, rounded, says nothing.
    """
    found = {}
    for (name, system), value in printed(paper, "rand_index").items():
        counts = class_counts(paper, name)
        if counts is None:
            continue
        together = _pairs_of_one_class(counts)
        for share, what in ((together, "one cluster of all rows"), (1 - together, "rows alone")):
            if abs(value - share) <= rounding(paper):
                found[name, system] = f"{what}: {share:.4f}"
    return found


def class_counts(paper: str, name: str) -> tuple[int, ...] | None:
    """Return the rows of each class that a paper uses; None of an unknown set."""
    one = catalogue().get(name)
    return None if one is None else one.counts(one.paper_split.get(paper))


def rounding(paper: str) -> float:
    """Return how far a printed figure may be from the exact one: half its last digit."""
    one = _paper(paper)
    return 0.5 * one["step"] / (100.0 if one.get("percent") else 1.0) + 1e-12


def least_purity(counts: Sequence[int]) -> float:
    """Return the lowest purity of any clustering of classes of these sizes.

    Every cluster has at least as many rows in its own largest class as in the class that is the
    largest of all; summed over the clusters these are all rows of that class. One cluster has it.
    """
    return max(counts) / sum(counts)


def least_rand_index(counts: Sequence[int]) -> float:
    """Return the lowest Rand index of any clustering of classes of these sizes, which one attains.

    That clustering is one cluster of everything, but of a class with more rows than all others
    together only as many as those; the rest of its rows are alone.

    Why no clustering has less: let v be the rows of each class in a cluster, s their sum and
    g(v) = s^2 - 2 |v|^2. The pairs on which clustering and classes differ are half of |n|^2 plus
    the sum of g over the clusters, n being the class sizes; so g is to be large. Let G(v) be the
    largest g of any real w, 0 <= w <= v. The w that has it keeps every w_j <= s/2 (else a smaller
    w_j is better), so that for two of them w.w' <= ss'/2 and g(w + w') - g(w) - g(w') =
    2 (ss' - 2 w.w') >= 0: the sum of G over the clusters is at most G(n). Where no n_j is above
    N/2, G(n) = g(n), one cluster. Else n_1 = r + e with r the rows of the others; a cluster with
    e_i more rows of class 1 than of others has g = G - e_i^2 <= G - e_i, the e_i sum up to e at
    least, and the sum of g is at most G(n) - e, which the clustering above has.
    """
    largest = max(counts)
    rest = sum(counts) - largest
    others = sorted(counts)[:-1]
    kept = min(largest, rest)
    agreed = comb(kept, 2) + sum(comb(size, 2) for size in others)  # together in both
    alone = largest - kept
    agreed += alone * rest  # apart in both
    pairs = comb(sum(counts), 2)
    return agreed / pairs if pairs else 1.0


def _pairs_of_one_class(counts: Sequence[int]) -> float:
    return sum(comb(size, 2) for size in counts) / comb(sum(counts), 2)


def _paper(paper: str) -> dict[str, Any]:
    if paper not in _tables():
        raise KeyError(f"no paper {paper!r}; there are {', '.join(_tables())}")
    return _tables()[paper]


@cache
def _tables() -> dict[str, Any]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
