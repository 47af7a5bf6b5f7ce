"""Preparation of rows: fills missing values, scales or models columns, and moves the origin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from distsvc.errors import DataError, UnusableRowsError
from distsvc.models.columns.model import ColumnModel
from distsvc.models.rows import sampling
from distsvc.models.rows.scaling import MAX_ROW_LENGTH, SCALE_KINDS, Scaling, check_length
from distsvc.models.rules.fields import FLAG, ArrayField, Fact, Field, check_fields
from distsvc.run.learning.survey import extreme_row_numbers
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.storage.rows.blocks import Block

PREPARATION = "scaling"
TABLES, SALTS, COLUMNS = "column_tables", "column_salts", "column_model"
"""Names of a column model's two arrays and its JSON description in a `Result`."""

PREPARATION_FIELDS: dict[str, Field] = {
    "centre": ArrayField("float64", "d"),
    "scale": ArrayField("float64", "d", above=0.0),
    "fill": ArrayField("float64", "d"),
    "origin": ArrayField("float64", "d"),
    "wide": FLAG,
    "scaled": Fact(Literal[SCALE_KINDS]),
}
"""Required values of a saved preparation, by name; ``d`` is the number of stored columns."""


@dataclass(frozen=True)
class Preparation:
    """Converts raw rows to the rows that a model uses.

    It fills in missing values, scales the columns, and subtracts an origin. A column model, if
    there is one, replaces the scaling. It can make several prepared columns of a stored column.
    """

    scaling: Scaling
    origin: np.ndarray  # (width,); of a column model, only latent variables have a nonzero origin
    float64: bool  # whether rules take float64 rows
    columns: ColumnModel | None = None

    @property
    def width(self) -> int:
        """Number of prepared columns."""
        return len(self.origin)

    @property
    def firsts(self) -> np.ndarray:
        """Index (d,) int64 of the first prepared column of each stored column."""
        return np.arange(self.width) if self.columns is None else self.columns.firsts

    @property
    def n_learned(self) -> int:
        return self.width if self.columns is None else len(self.columns.layout.latent)

    def learner_rows(self, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return prepared rows (n, n_learned) for learners, from raw rows X (n, d).

        The row numbers `rows` (n,) seed the random draws of a column model.
        """
        if self.columns is None:
            return self(X)
        drawn = self.columns.latent(X, rows)
        return np.ascontiguousarray(drawn - self.origin[self.columns.layout.latent], np.float32)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Convert raw rows X (n, d) to prepared rows (n, width), which the model's rule labels.

        The result is float32 or float64, as the rule requires.
        """
        if self.columns is not None:
            return self.columns.centred(X, self.origin)
        if self.float64:
            return self.scaling.apply(X) - self.origin
        return self.scaling.to_kernels(X, self.origin)

    def result(self) -> Result:
        arrays = {name: getattr(self.scaling, name) for name in ("centre", "scale", "fill")}
        arrays |= {"origin": self.origin}
        facts = {"wide": self.float64, "scaled": self.scaling.kind}
        if self.columns is not None:
            facts |= {COLUMNS: self.columns.facts()}
            arrays |= {TABLES: self.columns.tables, SALTS: self.columns.salts}
        return Result(facts, arrays)

    @classmethod
    def restored(cls, result: Result, d: int | None = None) -> Self:
        """Return the preparation that is stored in a result.

        Raise `DataError` if a stored value is wrong, or if there are not `d` stored columns.
        """
        a, described = result.arrays, result.facts.get(COLUMNS)
        origin = {} if described is None else {"origin": ArrayField("float64", "D")}
        check_fields(PREPARATION_FIELDS | origin, result.facts | a, {} if d is None else {"d": d})
        scaling = Scaling(a["centre"], a["scale"], a["fill"], result.facts["scaled"])
        columns = None
        if described is not None:
            try:
                columns = ColumnModel.restored(described, a[TABLES], a[SALTS])
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(
                    f"the model's field {COLUMNS!r} is damaged ({type(error).__name__}: {error}); "
                    "restore the model's files"
                ) from None
            width, found = columns.layout.width, len(a["origin"])
            if width != found:
                raise DataError(f"array origin: expected {width} values, found {found}")
        return cls(scaling, a["origin"], bool(result.facts["wide"]), columns)

    @classmethod
    def read(cls, run: RunDirectory, name: str = PREPARATION) -> Self:
        return cls.restored(run.read(name))


def learner_rows(run: RunDirectory, X: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return prepared rows for learners, from raw rows X (n, d) with keys (n,) uint64."""
    return Preparation.read(run).learner_rows(X, sampling.rows_of(run.plan.seed, keys))


def prepared_block(run: RunDirectory, block: Block, preparation: Preparation) -> np.ndarray:
    """Return a block's prepared rows (n, D) for the rule, with overlong extreme rows clipped."""
    table = run.plan.table
    Z = preparation(block.X)
    try:
        check_rows(Z, block, table.shown, table.columns)
    except DataError:
        extreme = np.isin(block.rows, extreme_row_numbers(run))
        if not extreme.any():
            raise
        Z[extreme] = clip_rows(Z[extreme])
        check_rows(Z, block, table.shown, table.columns)
    return Z


def clip_rows(Z: np.ndarray) -> np.ndarray:
    """Return prepared rows Z (n, d), clipped so that no row is longer than `MAX_ROW_LENGTH`."""
    most = float(MAX_ROW_LENGTH / np.sqrt(Z.shape[1]))
    return np.clip(Z, -most, most)


def check_rows(Z: np.ndarray, block: Block, shown: str, columns: Sequence[str]) -> None:
    """Raise `DataError` if values of the prepared rows Z (n, d) are too large for a model.

    The error names the table (`shown`), and the row and column of the largest value.
    """
    try:
        check_length(Z, 2.0 * MAX_ROW_LENGTH)
    except UnusableRowsError:
        row, column = np.unravel_index(np.abs(Z).argmax(), Z.shape)
        raise DataError(
            f"{shown}: column {columns[column]!r}, row {block.rows[row]}: "
            f"{block.X[row, column]:g} is too large for this scaling: a scaled row may have a "
            f"length of at most {2.0 * MAX_ROW_LENGTH:g}; mend the value, or learn with another "
            "preprocess.scale"
        ) from None
