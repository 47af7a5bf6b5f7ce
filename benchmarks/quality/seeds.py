"""How often two seeds answer differently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from statistics import mean

import numpy as np

from benchmarks.harness.measure import agreement
from benchmarks.harness.rows import Row, only
from benchmarks.quality.without_labels import parts

SAME = 0.9
"""Least adjusted Rand index of two answers that are the same one."""


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
            mine = only(alike, method=name)
            line[name] = sum(r["different"] for r in mine) / sum(r["pairs"] for r in mine)
        lines.append(line)
    return lines
