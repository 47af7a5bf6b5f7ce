"""What makes a table's row a learner's: missing values filled, columns scaled, the origin moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distsvc.config import PreprocessConfig
from distsvc.errors import DataError, UnusableRowsError
from distsvc.models.fields import Array, Field, Flag, Word, check_fields
from distsvc.models.scaling import KINDS, ColumnSums, Scaling
from distsvc.models.validation import LONGEST, check_length
from distsvc.run.directory import Result, RunDirectory
from distsvc.run.far_rows import told_of_far_rows
from distsvc.run.phases import Steps
from distsvc.run.room import Room
from distsvc.run.survey import Survey
from distsvc.storage.features import one_hot_columns
from distsvc.storage.tables import Block

SHOWN = 20
PREPARATION = "scaling"
NEEDS: dict[str, Field] = {
    "centre": Array("float64", "d"),
    "scale": Array("float64", "d", above=0.0),
    "fill": Array("float64", "d"),
    "origin": Array("float64", "d"),
    "wide": Flag(),
    "scaled": Word(KINDS),
}
"""What the arrays and facts of a preparation of ``d`` columns have to be."""


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
        """Return what `restored` takes back."""
        arrays = {name: getattr(self.scaling, name) for name in ("centre", "scale", "fill")}
        facts = {"wide": self.float64, "scaled": self.scaling.kind}
        return Result(facts, arrays | {"origin": self.origin})

    @classmethod
    def restored(cls, result: Result, d: int | None = None) -> Preparation:
        """Return the preparation of `d` columns that facts and arrays hold, among others.

        Raises
        ------
        DataError
            One of them is missing or not what it has to be; says which.

        """
        a = result.arrays
        check_fields(NEEDS, result.facts | a, {} if d is None else {"d": d})
        scaling = Scaling(a["centre"], a["scale"], a["fill"], result.facts["scaled"])
        return cls(scaling, a["origin"], bool(result.facts["wide"]))


def prepared(run: RunDirectory, X: np.ndarray, name: str = PREPARATION) -> np.ndarray:
    """Return raw rows X (n, d) float64 as the run's learner and its rule want them."""
    return Preparation.restored(run.read(name))(X)


def prepared_block(run: RunDirectory, block: Block, name: str = PREPARATION) -> np.ndarray:
    """Return the rows (n, d) of a block, of any table, as the rule of a preparation wants them.

    Raises
    ------
    DataError
        A row is too long for the rule once it is scaled. The table of the fit has none: about
        another origin its rows are at most twice as long.

    """
    table = run.plan.table
    return checked_rows(Preparation.restored(run.read(name)), block, table.shown, table.columns)


def checked_rows(
    preparation: Preparation, block: Block, shown: str, columns: Sequence[str]
) -> np.ndarray:
    """Return the prepared rows (n, d) of a block; errors as in `prepared_block`."""
    Z = preparation(block.X)
    try:
        check_length(Z, 2.0 * LONGEST)
    except UnusableRowsError:
        row, column = np.unravel_index(np.abs(Z).argmax(), Z.shape)
        raise DataError(
            f"{shown}: column {columns[column]!r}, row {block.rows[row]}: expected "
            f"a row of a length of at most {2.0 * LONGEST:g} once it is scaled, found "
            f"{block.X[row, column]:g}"
        ) from None
    return Z


def prepare(steps: Steps, config: PreprocessConfig, room: Room, survey: Survey) -> np.ndarray:
    """Settle scaling and origin, and all that takes a pilot; return the prepared pilot (m, d).

    The sample holds rows as the table has them, so every learner prepares them alike.
    """
    engine = room.engine
    with steps.progress.phase("prepare"):
        table = steps.run.plan.table
        together = one_hot_columns(table.features)
        scaling, notes = make_scaling(config, survey, table.columns, together)
        scaling.check(survey.sums, table.columns)
        notes += told_of_far_rows(survey, config.scale, table.features)
        engine.set_pilot(scaling.apply(survey.pilot), survey.n_rows)
        engine.notes.extend([*steps.run.plan.notes, *notes])
        preparation = Preparation(scaling, engine.centre, room.rules[0].float64)
        steps.run.write(PREPARATION, preparation.result())
        return preparation(survey.pilot)


def make_scaling(
    config: PreprocessConfig,
    survey: Survey,
    columns: Sequence[str],
    together: Sequence[slice] = (),
) -> tuple[Scaling, list[str]]:
    """Turn the column sums into the scaling that the job asks for, and say what is remarkable.

    The columns of a slice of `together` are the values of one column.
    """
    sums, notes = survey.sums, []
    empty = [name for name, n in zip(columns, sums.counts, strict=True) if n == 0]
    if empty:
        raise DataError(f"column {empty[0]!r} has no value in any row")
    fill = np.zeros(len(columns))
    if config.missing == "median":
        fill, n_missing = _fill(sums, survey, together)
        if n_missing:
            notes.append(f"{n_missing} missing values were replaced by their columns' medians")
    varies = sums.least < sums.most
    for group in together:  # a rare value may not come up at all
        varies[group] = varies[group].any()
    constant = [name for name, some in zip(columns, varies, strict=True) if not some]
    if constant:
        more = f" and {len(constant) - SHOWN} more" if len(constant) > SHOWN else ""
        shown = ", ".join(constant[:SHOWN])
        notes.append(f"constant columns carry no information: {shown}{more}")
    if config.scale == "robust":
        scaling = Scaling.robust(sums, survey.pilot, fill)
    else:
        scaling = Scaling.from_sums(sums, config.scale, fill)
    return scaling.together(sums, together), notes


def _fill(sums: ColumnSums, survey: Survey, together: Sequence[slice]) -> tuple[np.ndarray, int]:
    """Return the pilot's medians (d,) and how many values they replace, which `sums` then count.

    Of one-hot columns that is the value of more than half of the rows, or none.
    """
    means, _ = sums.mean_and_variance()
    pilot = np.where(np.isnan(survey.pilot).all(axis=0), means, survey.pilot)
    fill = np.nanmedian(pilot, axis=0)
    missing = survey.n_rows - sums.counts
    for group in together:
        fill[group] = np.floor(fill[group])
        missing[group.start + 1 : group.stop] = 0  # all are missing where one is
    n_missing = int(missing.sum())
    sums.impute(fill, survey.n_rows)
    return fill, n_missing
