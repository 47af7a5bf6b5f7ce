"""Stored rows become learner input: missing values filled, columns scaled, the origin moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from distsvc.errors import DataError, UnusableRowsError
from distsvc.models.rows.scaling import KINDS, Scaling
from distsvc.models.rows.validation import LONGEST, check_length
from distsvc.models.rules.fields import FLAG, ArrayField, Fact, Field, check_fields
from distsvc.run.learning.aside import rows_aside
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.storage.rows.blocks import Block

PREPARATION = "scaling"
NEEDS: dict[str, Field] = {
    "centre": ArrayField("float64", "d"),
    "scale": ArrayField("float64", "d", above=0.0),
    "fill": ArrayField("float64", "d"),
    "origin": ArrayField("float64", "d"),
    "wide": FLAG,
    "scaled": Fact(Literal[KINDS]),
}
"""The form of the arrays and facts of a preparation of ``d`` columns."""


@dataclass(frozen=True)
class Preparation:
    """A scaling, the point that becomes 0, and whether rows stay float64."""

    scaling: Scaling
    origin: np.ndarray
    float64: bool

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return raw rows X (n, d) float64 as the rule wants them, float32 or float64."""
        if self.float64:
            return self.scaling.apply(X) - self.origin
        return self.scaling.to_kernels(X, self.origin)

    def result(self) -> Result:
        """Return facts and arrays for `restored`."""
        arrays = {name: getattr(self.scaling, name) for name in ("centre", "scale", "fill")}
        facts = {"wide": self.float64, "scaled": self.scaling.kind}
        return Result(facts, arrays | {"origin": self.origin})

    @classmethod
    def restored(cls, result: Result, d: int | None = None) -> Preparation:
        """Return the preparation of `d` columns that facts and arrays hold, among others.

        `DataError` where one of them is missing or not what it has to be; says which.
        """
        a = result.arrays
        check_fields(NEEDS, result.facts | a, {} if d is None else {"d": d})
        scaling = Scaling(a["centre"], a["scale"], a["fill"], result.facts["scaled"])
        return cls(scaling, a["origin"], bool(result.facts["wide"]))

    @classmethod
    def read(cls, run: RunDirectory, name: str = PREPARATION) -> Preparation:
        """Return the preparation of a run, or another result of this kind."""
        return cls.restored(run.read(name))


def prepared(run: RunDirectory, X: np.ndarray, name: str = PREPARATION) -> np.ndarray:
    """Return raw rows X (n, d) float64 as the run's learner and its rule want them."""
    return Preparation.read(run, name)(X)


def prepared_block(run: RunDirectory, block: Block, name: str = PREPARATION) -> np.ndarray:
    """Return the rows (n, d) of a block, of any table, as the rule of a preparation wants them.

    Rows that were set aside when it was learned may be of any length: they are drawn in.

    `DataError` where another row is too long for the rule once it is scaled. The table of the fit
    has none: about another origin its rows are at most twice as long.
    """
    table, preparation = run.plan.table, Preparation.read(run, name)
    Z = preparation(block.X)
    try:
        check_rows(Z, block, table.shown, table.columns)
    except DataError:
        aside = np.isin(block.rows, rows_aside(run))
        if not aside.any():
            raise
        Z[aside] = drawn_in(Z[aside])
        check_rows(Z, block, table.shown, table.columns)
    return Z


def drawn_in(Z: np.ndarray) -> np.ndarray:
    """Return prepared rows Z (n, d) of any length, none longer than a rule can take."""
    most = LONGEST / np.sqrt(Z.shape[1])
    return np.clip(Z, -most, most)


def check_rows(Z: np.ndarray, block: Block, shown: str, columns: Sequence[str]) -> None:
    """Check that the prepared rows Z (n, d) of a block are not too long; `DataError` names one."""
    try:
        check_length(Z, 2.0 * LONGEST)
    except UnusableRowsError:
        row, column = np.unravel_index(np.abs(Z).argmax(), Z.shape)
        raise DataError(
            f"{shown}: column {columns[column]!r}, row {block.rows[row]}: expected "
            f"a row of a length of at most {2.0 * LONGEST:g} once it is scaled, found "
            f"{block.X[row, column]:g}"
        ) from None
