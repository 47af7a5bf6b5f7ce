"""Tests of sample values when a table is opened: ids and codes, and text of numbers.

The same few thousand rows are read whenever a table is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distsvc.inputs.mixed import frequent, texts_of
from distsvc.storage.rows import numeric_text
from distsvc.storage.rows.blocks import Span, Table, plain_values
from distsvc.storage.rows.categories import Codes, are_comparable, has_few_levels
from distsvc.storage.rows.features import Feature, Numeric
from distsvc.storage.rows.id_detection import (
    MIN_ROWS_TO_DROP,
    SPOT_ROWS,
    SPOTS,
    code_reason,
    is_named_like_code,
    may_be_code,
)
from distsvc.storage.tables.source import Source

MIXED_TEXT = "text, though most of its values are numbers"
"""Reason why a column of text with mostly numbers is no feature."""

WITH_UNIT = "text, numbers with a unit behind them"
"""Reason why a column of numbers with a unit is no feature."""

ID_OR_DATE = "text that looks like ids or dates"
"""Reason why a column of text with few levels is no feature."""


def without_codes(table: Table, source: Source, kept: Collection[str] = ()) -> Table:
    """Return a table without the features that are no quantities, except those in `kept`.

    Small tables keep all features, and every table keeps one.
    """
    if table.n_rows < MIN_ROWS_TO_DROP:
        return table
    found = {name: why for name, why in code_columns(table, source).items() if name not in kept}
    if not {one.column for one in table.features} - found.keys():
        return table
    pairs = zip(table.features, table.types, strict=True)
    texts = {one.column: kind for one, kind in pairs if isinstance(one, numeric_text.TextNumber)}
    return without_features(table, {name: texts.get(name, why) for name, why in found.items()})


def without_features(table: Table, reasons: dict[str, str]) -> Table:
    """Return a table without the features of some columns, with the reasons."""
    others = [k for k, one in enumerate(table.features) if one.column not in reasons]
    return replace(_only(table, others), left_out=table.left_out | reasons)


def code_columns(table: Table, source: Source) -> dict[str, str]:
    """Return the columns of whole numbers that are no quantities, and why.

    A column that is a quantity in one range of the sample is not read in the next.
    """
    found: dict[str, list[np.ndarray]] = {
        one.column: []
        for one, kind in zip(table.features, table.types, strict=True)
        if isinstance(one, Numeric | numeric_text.TextNumber) and kind != "bool"
    }
    for span in _spots(table.layout.extents):
        chosen = [k for k, one in enumerate(table.features) if one.column in found]
        if not chosen:
            break
        part = replace(_only(table, chosen), where=None)
        X = np.concatenate([block.X for block in source.blocks(part, span)])
        for name, values in zip(part.columns, X.T, strict=True):
            found[name].append(values[~np.isnan(values)])
            if not may_be_code(name, np.concatenate(found[name])):
                del found[name]
    reasons = {name: code_reason(name, np.concatenate(parts)) for name, parts in found.items()}
    return {name: why for name, why in reasons.items() if why is not None}


def texts_of_numbers(
    table: Table, source: Source, names: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the columns of text that hold only numbers, and the reason why others nearly do.

    A column whose sample is constant is in neither.
    """
    words: dict[str, set[str]] = {name: set() for name in names}
    mixed: dict[str, str] = {}
    for name, values in _sample(table, source, words):
        is_unicode = numeric_text.is_unicode(values)
        if is_unicode and numeric_text.are_numbers(values):
            words[name] |= numeric_text.known_words(values)
            continue
        del words[name]
        if is_unicode and numeric_text.are_mostly_numbers(values):
            mixed[name] = MIXED_TEXT
        elif is_unicode and numeric_text.have_unit(values):
            mixed[name] = WITH_UNIT
    return [name for name in words if len(words[name]) > 1], mixed


def texts_of_few_levels(
    table: Table, source: Source, names: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the columns of text that are categories of few levels, and why others are not."""
    counts = _value_counts(table, source, names)
    few = [name for name in names if name in counts and has_few_levels(counts[name])]
    are_dates = numeric_text.are_dates
    out = [name for name in few if is_named_like_code(name) or are_dates(counts[name])]
    return [name for name in few if name not in out], dict.fromkeys(out, ID_OR_DATE)


def with_compared(table: Table, source: Source) -> Table:
    """Return a table with the columns for comparisons that can be compared, and their levels.

    Numbers of at most 10 different values are compared as categories.
    """
    counts = _value_counts(table, source, [one.column for one in table.compared])
    found: list[Feature] = []
    for one in table.compared:
        values = counts.get(one.column, Counter())
        if isinstance(one, Numeric) and len(values) > 10:
            found.append(one)
        elif are_comparable(values):
            codes = Codes.of(one.column, values, frequent(values))
            # Values that the sample lacks need a bucket.
            found.append(codes.model_copy(update={"rest": max(codes.rest, 1e-9)}))
    return replace(table, compared=tuple(found))


def _value_counts(table: Table, source: Source, names: Sequence[str]) -> dict[str, Counter[str]]:
    """Return the counts of values in the sample, without columns of text that are not UTF-8."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for name, values in _sample(table, source, counts):
        if numeric_text.is_text(values.type) and not numeric_text.is_unicode(values):
            del counts[name]
            continue
        found = pc.value_counts(values.drop_null())
        words = texts_of(found.field(0)).to_pylist()
        counts[name].update(dict(zip(words, found.field(1).to_pylist(), strict=True)))
    return counts


def check_unicode(table: Table, source: Source, names: Sequence[str]) -> None:
    """Raise `DataError` for a column of text that is not UTF-8 in the sample."""
    for name, values in _sample(table, source, names):
        if not numeric_text.is_unicode(values):
            raise numeric_text.unicode_error(table.shown, name)


def _sample(table: Table, source: Source, names: Collection[str]) -> Iterator[tuple[str, pa.Array]]:
    """Yield sample values of columns, batch by batch, as long as the columns are in `names`."""
    for span in _spots(table.layout.extents):
        for batch in source.batches(table, span, list(names)) if names else ():
            for name in [name for name in batch if name in names]:
                yield name, plain_values(batch[name])


def _only(table: Table, places: Sequence[int]) -> Table:
    """Return a table with the features at some positions."""
    features = tuple(table.features[k] for k in places)
    return replace(table, features=features, types=tuple(table.types[k] for k in places))


def _spots(extents: Sequence[int]) -> list[Span]:
    """Return ranges of rows spread over a table; all rows of a small table.

    As many as possible begin at a storage unit, since the rows before them would be decoded, too.
    """
    n_rows = sum(extents)
    if n_rows <= SPOTS * SPOT_ROWS:
        return [Span(0, n_rows, n_rows)]
    borders = np.concatenate([[0], np.cumsum(extents)])
    wanted = np.linspace(0, n_rows - SPOT_ROWS, SPOTS).astype(np.int64)
    units = np.searchsorted(borders, wanted, side="right") - 1
    depths = np.zeros_like(wanted)
    for unit in np.unique(units):
        inside = np.flatnonzero(units == unit)
        if len(inside) > 1:
            room = min(extents[unit], 131_072) - SPOT_ROWS  # as the rows before are decoded, too
            depths[inside] = np.linspace(0, max(room, 0), len(inside))
    starts = np.unique(borders[units] + depths).tolist()
    return [Span(start, min(start + SPOT_ROWS, n_rows), SPOT_ROWS) for start in starts]
