"""The rows of a block that a job uses, leaves out or refuses."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import Category, Feature, names_of


def usable_rows(
    block: Block, shown: str, features: Sequence[Feature], missing: str, unit: bool
) -> np.ndarray:
    """Return the mask (n,) bool of the rows that a job uses.

    If `missing` is "drop", rows with missing values are excluded. If `unit` is true, rows will be
    scaled to norm 1, so rows of zeros only are unusable: "drop" excludes them, and any other
    policy raises `DataError`. `DataError` is also raised for infinite values, and for missing
    values if `missing` is "error".
    """
    fine = np.isfinite(block.X) if missing == "error" else ~np.isinf(block.X)
    if not fine.all():
        row, column = map(int, np.unravel_index(np.argmin(fine), fine.shape))
        why = _gaps if np.isnan(block.X[row, column]) else infinite_value_error
        raise why(block, row, column, shown, features)
    zero = (block.X == 0.0).all(axis=1) if unit else np.zeros(len(block.X), bool)
    if missing == "drop":
        return ~(zero | np.isnan(block.X).any(axis=1))
    if zero.any():
        raise DataError(
            f"{shown}: row {block.rows[zero.argmax()]}: found only zeros, expected at least one "
            "other value, since preprocess.scale = 'unit' or 'auto' divides a row by its length. "
            "preprocess.missing = 'drop' leaves rows of zeros out"
        )
    return ~zero


def infinite_value_error(
    block: Block, row: int, column: int, shown: str, features: Sequence[Feature]
) -> DataError:
    """Return the error for a value that is infinite, or too large to be squared in float64."""
    names = names_of(features)
    bad = np.flatnonzero(np.isinf(block.X).any(axis=0)).tolist()
    others = [repr(names[place]) for place in bad if place != column]
    more = f"; infinite values are also in {truncated(others)}" if others else ""
    return DataError(
        f"{shown}: column {names[column]!r}, row {block.rows[row]}: expected a finite "
        f"number below 1e154, found {float(block.X[row, column])}{more}"
    )


def _gaps(
    block: Block, row: int, column: int, shown: str, features: Sequence[Feature]
) -> DataError:
    """Return the error for missing values; it lists every column of the block that has any."""
    missing = np.isnan(block.X)
    names, makers = names_of(features), [one for one in features for _ in one.names]
    counts: dict[str, int] = {}
    for place in [column, *np.flatnonzero(missing.any(axis=0)).tolist()]:
        feature = makers[place]
        name = feature.column if isinstance(feature, Category) else names[place]
        counts.setdefault(name, int(missing[:, place].sum()))
    name = next(iter(counts))
    n = counts.pop(name)
    also = truncated([f"{k!r} ({n:,})" for k, n in counts.items()])
    others = f"; other columns with missing values: {also}" if counts else ""
    return DataError(
        f"{shown}: column {name!r} has {n:,} missing value{'' if n == 1 else 's'} in rows "
        f"{block.rows[0]} to {block.rows[-1]} (first at row {block.rows[row]}){others}; add "
        "--set preprocess.missing=median, or =drop"
    )


def no_values_error(names: Sequence[str], shown: str = "", in_lineage: bool = False) -> DataError:
    """Return the error for columns that have no value in any row.

    If `in_lineage` is true, the previous night's run used the columns, and the advice differs.
    """
    words = f"{no_values(names, shown)}; mend the table, or"
    if not in_lineage:
        return DataError(f"{words} add --exclude {','.join(names)}")
    return DataError(
        f"{words} label by the previous model (--set model.mode=assign), or remove "
        "continuity.previous, so that cluster ids start at 0"
    )


def no_values(names: Sequence[str], shown: str = "") -> str:
    """Return a clause for messages: the columns `names` have no value."""
    columns, have = ("column", "has") if len(names) == 1 else ("columns", "have")
    columns = f"{columns} {truncated([*map(repr, names)])}{shown and f' of {shown}'}"
    return f"{columns} {have} no value in any row"


def counts_as_missing(names: Sequence[str], shown: str = "") -> list[str]:
    """Return at most one warning: the columns `names` have no value, and count as missing."""
    verb = "counts" if len(names) == 1 else "count"
    return [f"{no_values(names, shown)}, and {verb} as missing"] if names else []


def select_rows(block: Block, kept: np.ndarray) -> Block:
    """Return a block of the rows where the mask `kept` (n,) bool is True."""
    if kept.all():
        return block
    mask = pa.array(kept)
    ids, labels = (None if a is None else a.filter(mask) for a in (block.ids, block.labels))
    compared = None if block.compared is None else block.compared[kept]
    return Block(block.rows[kept], block.X[kept], ids, labels, compared, block.types)
