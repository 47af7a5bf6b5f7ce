"""Columns whose values are looked at when a table is opened: whole numbers, and text of numbers.

Whole numbers may be row numbers, ids, dates or codes, which do not describe a row
(`storage.rows.codes`); text may hold nothing but numbers. The same few thousand rows are read
whenever a table is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from distsvc.inputs.levels import frequent, texts_of
from distsvc.storage.rows.blocks import Span, Table, undictionaried
from distsvc.storage.rows.categories import Codes, are_comparable, has_few_levels
from distsvc.storage.rows.codes import (
    FEWEST_ROWS,
    SPOT_ROWS,
    SPOTS,
    code_reason,
    is_named_like_code,
    may_be_code,
)
from distsvc.storage.rows.features import Feature, Numeric
from distsvc.storage.rows.texts import (
    TextNumber,
    are_dates,
    are_mostly_numbers,
    are_numbers,
    have_unit,
    is_text,
    is_unicode,
    known_words,
    not_unicode,
)
from distsvc.storage.tables.source import Source

MIXED = "text, though most of its values are numbers"
"""Why a column of text is no feature that nearly is one of numbers."""

WITH_UNIT = "text, numbers with a unit behind them"
"""Why a column of text is no feature that is one of numbers but for a word behind each."""

ID_OR_DATE = "text that looks like ids or dates"
"""Why a column of text of few levels is no feature."""

MAX_NUMBER_LEVELS = 10
"""Number of different numbers up to which a column that is no feature is compared by shares."""

LEAST_REST = 1e-9
"""Share of rows that keeps a level for values that come up at no spot."""

_DEEPEST = 131_072
"""Rows of a storage unit that are decoded to get to those that are read."""


def without_codes(table: Table, source: Source, kept: Collection[str] = ()) -> Table:
    """Return a table without those of its features that are no quantities, but for those `kept`.

    Small tables keep all, and every table keeps a feature. `source` is that of its format.
    """
    if table.n_rows < FEWEST_ROWS:
        return table
    found = {name: why for name, why in code_columns(table, source).items() if name not in kept}
    if not {one.column for one in table.features} - found.keys():
        return table
    texts = {
        one.column: kind
        for one, kind in zip(table.features, table.types, strict=True)
        if isinstance(one, TextNumber)
    }
    reasons = {name: texts.get(name, why) for name, why in found.items()}
    return without_features(table, reasons)


def without_features(table: Table, reasons: dict[str, str]) -> Table:
    """Return a table without the features of some columns, which are left out for some reasons."""
    others = [k for k, one in enumerate(table.features) if one.column not in reasons]
    return replace(_only(table, others), left_out=table.left_out | reasons)


def code_columns(table: Table, source: Source) -> dict[str, str]:
    """Return the columns of whole numbers that are no quantities, and why.

    Some rows at several spots of the table decide. A column that is a quantity by those of one spot
    is not read at the next.
    """
    found: dict[str, list[np.ndarray]] = {
        one.column: []
        for one, kind in zip(table.features, table.types, strict=True)
        if isinstance(one, Numeric | TextNumber) and kind != "bool"
    }
    for start, stop in _spots(table.layout.extents):
        chosen = [k for k, one in enumerate(table.features) if one.column in found]
        if not chosen:
            break
        part = replace(_only(table, chosen), where=None)
        X = np.concatenate(
            [block.X for block in source.blocks(part, Span(start, stop, stop - start))]
        )
        for name, values in zip(part.columns, X.T, strict=True):
            found[name].append(values[~np.isnan(values)])
            if not may_be_code(name, np.concatenate(found[name])):
                del found[name]
    reasons = {name: code_reason(name, np.concatenate(parts)) for name, parts in found.items()}
    return {name: why for name, why in reasons.items() if why is not None}


def texts_of_numbers(
    table: Table, source: Source, names: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the columns of text that hold nothing but numbers, and why others nearly do.

    Some rows at several spots of the table decide. Of a column that says nothing, because all its
    values there are the same, neither is known. `names` are columns of text.
    """
    left, mixed = list(names), dict[str, str]()
    words: dict[str, set[str]] = {name: set() for name in names}
    for start, stop in _spots(table.layout.extents):
        span, chosen = Span(start, stop, stop - start), list(left)
        for batch in source.batches(table, span, chosen) if chosen else ():
            for name in [name for name in batch if name in left]:
                values = undictionaried(batch[name])
                if not is_unicode(values):
                    left.remove(name)
                    continue
                if are_numbers(values):
                    words[name] |= known_words(values)
                    continue
                left.remove(name)
                if are_mostly_numbers(values):
                    mixed[name] = MIXED
                elif have_unit(values):
                    mixed[name] = WITH_UNIT
    return [name for name in left if len(words[name]) > 1], mixed


def texts_of_few_levels(
    table: Table, source: Source, names: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the columns of text that are categories of few levels, and why others are not.

    Some rows at several spots of the table decide. `names` are columns of text.
    """
    counts = _value_counts(table, source, names)
    few = [name for name in names if name in counts and has_few_levels(counts[name])]
    out = [name for name in few if is_named_like_code(name) or are_dates(counts[name])]
    return [name for name in few if name not in out], dict.fromkeys(out, ID_OR_DATE)


def with_compared(table: Table, source: Source) -> Table:
    """Return a table whose columns for comparisons are those that can be compared.

    Some rows at several spots of the table decide, and say which values have levels of their own.
    """
    counts = _value_counts(table, source, [one.column for one in table.compared])
    found: list[Feature] = []
    for one in table.compared:
        values = counts.get(one.column, Counter())
        if isinstance(one, Numeric) and len(values) > MAX_NUMBER_LEVELS:
            found.append(one)
        elif are_comparable(values):
            codes = Codes.of(one.column, values, frequent(values))
            found.append(codes.model_copy(update={"rest": max(codes.rest, LEAST_REST)}))
    return replace(table, compared=tuple(found))


def _value_counts(table: Table, source: Source, names: Sequence[str]) -> dict[str, Counter[str]]:
    """Return the rows of each value at the spots, but for columns of text that is no UTF-8."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for start, stop in _spots(table.layout.extents) if names else ():
        for batch in source.batches(table, Span(start, stop, stop - start), list(counts)):
            for name in [name for name in batch if name in counts]:
                values = undictionaried(batch[name])
                if is_text(values.type) and not is_unicode(values):
                    del counts[name]
                    continue
                found = pc.value_counts(values.drop_null())
                words = texts_of(found.field(0)).to_pylist()
                counts[name].update(dict(zip(words, found.field(1).to_pylist(), strict=True)))
    return counts


def check_unicode(table: Table, source: Source, names: Sequence[str]) -> None:
    """Raise `DataError` for a column of text that is no UTF-8 at the spots, before any work."""
    for start, stop in _spots(table.layout.extents) if names else ():
        for batch in source.batches(table, Span(start, stop, stop - start), list(names)):
            for name in names:
                if not is_unicode(undictionaried(batch[name])):
                    raise not_unicode(table.shown, name)


def _only(table: Table, places: Sequence[int]) -> Table:
    """Return a table with some of its features."""
    features = tuple(table.features[k] for k in places)
    return replace(table, features=features, types=tuple(table.types[k] for k in places))


def _spots(extents: Sequence[int]) -> list[tuple[int, int]]:
    """Return ranges of rows spread over a table, at most so many; all rows of a small table.

    They begin where a storage unit does as far as there are as many units, since the rows before
    them in a unit are decoded, too.
    """
    n_rows = sum(extents)
    if n_rows <= SPOTS * SPOT_ROWS:
        return [(0, n_rows)]
    borders = np.concatenate([[0], np.cumsum(extents)])
    wanted = np.linspace(0, n_rows - SPOT_ROWS, SPOTS).astype(np.int64)
    units = np.searchsorted(borders, wanted, side="right") - 1
    depths = np.zeros_like(wanted)
    for unit in np.unique(units):
        inside = np.flatnonzero(units == unit)
        if len(inside) > 1:
            room = min(extents[unit], _DEEPEST) - SPOT_ROWS
            depths[inside] = np.linspace(0, max(room, 0), len(inside))
    starts = np.unique(borders[units] + depths)
    return [(int(start), int(min(start + SPOT_ROWS, n_rows))) for start in starts]
