"""Why rows are outliers of a linear model: the columns that pull them out most, by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.models.linear.rule import LinearRule
from distsvc.report.model_parts import FarRow, LeadingColumn, Reason, ReasonsPart
from distsvc.run.room import Block, Columns, Result

FARTHEST = 10
"""Rows that the report shows."""

IN_REPORT = 3
"""Columns that it names for each of them."""


class Reasons:
    """Collects the reasons of outliers while rows are labelled.

    Parameters
    ----------
    rule : LinearRule
    columns : sequence of str
        The table's.
    count : int
        Columns named for each outlier in the output; 0 for no text.

    """

    def __init__(self, rule: LinearRule, columns: Sequence[str], count: int):
        self.rule, self.names, self.count = rule, columns, count
        self.leading = np.zeros(len(columns), np.int64)
        self.farthest: list[FarRow] = []

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        """Take in a block with its prepared rows Z (n, d) and their scores.

        Returns the reasons of every row as text, None for those that are no outliers.
        """
        score = labelled["score"]
        text: list[str | None] = [None] * len(score)
        places = np.flatnonzero(labelled["outlier"])
        if len(places):
            order, shares = self.heaviest(Z[places])
            self.leading += np.bincount(order[:, 0], minlength=self.leading.size)
            for place, ks, parts in zip(places, order, shares, strict=True) if self.count else ():
                text[place] = self._text(ks[: self.count], parts[: self.count])
            for i in np.lexsort((block.rows[places], score[places]))[:FARTHEST]:
                self.farthest.append(self._row(block, places[i], score, order[i], shares[i]))
            self.farthest = farthest(self.farthest)
        return {"reasons": text} if self.count else {}

    def heaviest(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns that pull rows Z (m, d) out most, and their shares of all that do."""
        pulls = np.maximum(self.rule.pulls(Z), 0.0)
        most = max(self.count, IN_REPORT)
        order = np.argsort(-pulls, axis=1, kind="stable")[:, :most]
        sums = pulls.sum(axis=1, keepdims=True)
        shares = np.take_along_axis(pulls, order, axis=1)
        return order, np.divide(shares, sums, out=np.zeros_like(shares), where=sums > 0.0)

    def result(self) -> Result:
        """Return how often each column pulls hardest, and the farthest rows."""
        rows = [row.model_dump() for row in self.farthest]
        return Result({"farthest": rows}, {"leading": self.leading})

    def merge(self, other: Result) -> None:
        """Take in another partition's reasons."""
        self.leading = self.leading + other.arrays["leading"]
        rows = [FarRow.model_validate(row) for row in other.facts["farthest"]]
        self.farthest = farthest(self.farthest + rows)

    def part(self) -> ReasonsPart:
        """Return what the page says: the columns that most often pull hardest, and the rows."""
        order = np.argsort(-self.leading, kind="stable")[:FARTHEST]
        leading = [
            LeadingColumn(column=self.names[k], rows=int(self.leading[k]))
            for k in order
            if self.leading[k] > 0
        ]
        return ReasonsPart(leading=leading, farthest=self.farthest)

    def _text(self, ks: np.ndarray, shares: np.ndarray) -> str:
        named = zip(ks, shares, strict=True)
        return ", ".join(f"{self.names[k]} ({share:.0%})" for k, share in named if share > 0.0)

    def _row(
        self, block: Block, place: int, score: np.ndarray, ks: np.ndarray, shares: np.ndarray
    ) -> FarRow:
        named = zip(ks[:IN_REPORT], shares[:IN_REPORT], strict=True)
        reasons = [
            Reason(column=self.names[k], share=float(share), value=float(block.X[place, k]))
            for k, share in named
            if share > 0.0
        ]
        return FarRow(row=int(block.rows[place]), score=float(score[place]), reasons=reasons)


def farthest(rows: list[FarRow]) -> list[FarRow]:
    """Return the rows with the lowest scores, equal ones in the order of the table."""
    return sorted(rows, key=lambda row: (row.score, row.row))[:FARTHEST]
