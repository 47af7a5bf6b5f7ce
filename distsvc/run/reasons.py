"""Why rows are outliers of a linear model: the columns that pull them out most, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distsvc.models.linear.rule import LinearRule

FARTHEST = 10
"""Rows that the report shows."""

IN_REPORT = 3
"""Columns that it names for each of them."""


class Reasons:
    """Collects the reasons of a partition's outliers.

    Parameters
    ----------
    rule : LinearRule
    columns : sequence of str
    count : int
        Columns named for each outlier in the output; 0 for no text.

    """

    def __init__(self, rule: LinearRule, columns: Sequence[str], count: int):
        self.rule, self.columns, self.count = rule, columns, count
        self.leading = np.zeros(len(columns), np.int64)
        self.farthest: list[dict[str, Any]] = []

    def add(
        self, rows: np.ndarray, X: np.ndarray, Z: np.ndarray, score: np.ndarray
    ) -> list[str | None]:
        """Take in a block: row numbers (n,), raw and prepared rows (n, d), scores (n,).

        Returns the text of every row, None for those that are no outliers.
        """
        text: list[str | None] = [None] * len(rows)
        places = np.flatnonzero(score < 0.0)
        if not len(places):
            return text
        order, shares = self.heaviest(Z[places])
        self.leading += np.bincount(order[:, 0], minlength=self.leading.size)
        for place, ks, parts in zip(places, order, shares, strict=True) if self.count else ():
            named = zip(ks[: self.count], parts[: self.count], strict=True)
            text[place] = ", ".join(
                f"{self.columns[k]} ({part:.0%})" for k, part in named if part > 0.0
            )
        for i in np.lexsort((rows[places], score[places]))[:FARTHEST]:
            of = places[i]
            named = zip(order[i, :IN_REPORT], shares[i, :IN_REPORT], strict=True)
            reasons = [
                {"column": self.columns[k], "share": float(part), "value": float(X[of, k])}
                for k, part in named
                if part > 0.0
            ]
            row = {"row": int(rows[of]), "score": float(score[of]), "reasons": reasons}
            self.farthest.append(row)
        self.farthest = farthest(self.farthest)
        return text

    def heaviest(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns that pull rows Z (m, d) out most, and their shares of all that do."""
        pulls = np.maximum(self.rule.pulls(Z), 0.0)
        most = max(self.count, IN_REPORT)
        order = np.argsort(-pulls, axis=1, kind="stable")[:, :most]
        sums = pulls.sum(axis=1, keepdims=True)
        shares = np.take_along_axis(pulls, order, axis=1)
        return order, np.divide(shares, sums, out=np.zeros_like(shares), where=sums > 0.0)


def farthest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the lowest scores, equal ones in the order of the table."""
    return sorted(rows, key=lambda row: (row["score"], row["row"]))[:FARTHEST]


def for_report(
    columns: Sequence[str], leading: np.ndarray, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return what the page says: the columns that most often pull hardest, and the rows."""
    order = np.argsort(-leading, kind="stable")[:FARTHEST]
    return {
        "leading": [
            {"column": columns[k], "rows": int(leading[k])} for k in order if leading[k] > 0
        ],
        "farthest": rows,
    }
