"""Passes over stored values: samples, counts of categories, and a check of large integers.

All samples of a table are the same few thousand rows.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.inputs.given import has_values, is_numeric, is_text
from distsvc.inputs.mixed import MAX_LEVEL_LENGTH, MOST_LEVELS, frequent, text_counts
from distsvc.inputs.rows import is_narrow
from distsvc.storage.rows import numeric_text
from distsvc.storage.rows.blocks import Batches, Span, Table, matching_rows, plain_values
from distsvc.storage.rows.columns import INCOMPARABLE, MAX_COMPARED_COLUMNS, PLAIN_TEXT, Scan
from distsvc.storage.rows.features import (
    Codes,
    Feature,
    Numeric,
    TextNumber,
    Vector,
    are_comparable,
    has_few_levels,
    is_category,
    placed,
    without_sentinels,
)
from distsvc.storage.rows.id_detection import (
    CODE,
    MIN_ROWS_TO_DROP,
    SPOT_ROWS,
    SPOTS,
    code_reason,
    is_named_like_code,
    may_be_code,
)
from distsvc.storage.tables.sources import source_of

MAX_VALUES = 1_000_000
"""Maximum number of different values of a column that is read as a category."""


def matching_batches(table: Table, span: Span, columns: Sequence[str]) -> Batches:
    """Yield the rows of a span that match ``where``, in batches with the given columns.

    Sentinel values such as -999, which the job lists as missing, become null.
    """
    batches = partial(source_of(table).batches, table, span)
    for _, _, arrays in matching_rows(table, span, batches, columns):
        yield {name: without_sentinels(arrays[name], table.missing_values) for name in columns}


def add_counts(
    counts: dict[str, Counter[str]], table: Table, start: int, stop: int, cut: Collection[str] = ()
) -> None:
    """Add the counts of each column's values in storage rows [start, stop) to `counts`.

    The keys of `counts` are the columns to count. Only rows that match ``where`` are counted, and
    null is not. A value longer than `MAX_LEVEL_LENGTH` raises `DataError`, unless its column is in
    `cut`: then the value is truncated.
    """
    for arrays in matching_batches(table, Span(start, stop, 65_536), list(counts)):
        for column, array in arrays.items():
            if not numeric_text.is_unicode(array):
                raise numeric_text.unicode_error(table.shown, column)
            if column in cut and is_text(array.type):
                array = pc.utf8_slice_codeunits(array, 0, MAX_LEVEL_LENGTH + 1)
            found, fault = text_counts(array), ""
            counts[column].update(found)
            longest = max(map(len, found), default=0)
            if longest > MAX_LEVEL_LENGTH and column not in cut:
                fault = f"a text of {longest} characters, expected at most {MAX_LEVEL_LENGTH}"
            elif len(counts[column]) > MAX_VALUES:
                fault = f"more than {MAX_VALUES:,} different values, expected fewer"
            if fault:
                raise DataError(
                    f"{table.shown}: column {column!r}, read as categories, has {fault}; leave it "
                    f"out by --exclude {column}, or give a column with fewer or shorter values"
                )


def columns_without_values(table: Table, names: Sequence[str]) -> list[str]:
    """Return the columns without any value in rows that match ``where``; [] if no row matches."""
    left, start, stop, has_rows = list(names), 0, 1024, False
    while left and start < table.n_rows:
        span = Span(start, min(stop, table.n_rows), max(2**20 // len(left), 256))
        for batch in matching_batches(table, span, left):
            has_rows = has_rows or any(map(len, batch.values()))
            left = [name for name in left if not has_values(batch[name])]
        start, stop = stop, 8 * stop  # nearly all columns have a value in the first rows
    return left if has_rows else []


def check_exact(table: Table, least: np.ndarray, most: np.ndarray) -> None:
    """Raise `DataError` for large integers or decimals too close together for float64.

    `least` and `most` (d,) float64 are the extremes of the numeric columns.
    """
    for k in np.flatnonzero(is_narrow(least, most)):
        pairs = zip(placed(table.features), table.types, strict=True)
        (feature, places), kind = next(pair for pair in pairs if k < pair[0][1].stop)
        if not isinstance(feature, Numeric | Vector) or not ("int64" in kind or "decimal" in kind):
            continue  # float64 is exact
        place = int(k) - places.start if feature.whole else None
        if least[k] < most[k] or _varies(table, feature.column, place):
            name, near = table.columns[k], int(np.nextafter(least[k], 0.0))
            raise DataError(
                f"{table.shown}: column {name!r} holds numbers near {near} that are too close "
                f"together for float64, whose steps are {np.spacing(abs(float(near))):g} near this "
                f"number; "
                f"store {name} - {near} instead, or leave the column out of input.columns"
            )


def _varies(table: Table, column: str, place: int | None) -> bool:
    first: pa.Scalar | None = None
    for batch in matching_batches(table, Span(0, table.n_rows, 8192), [column]):
        values = batch[column].drop_null()
        if place is not None:
            values = pc.list_element(values, place).drop_null()
        if len(values):
            first = values[0] if first is None else first
            if pc.any(pc.not_equal(values, first)).as_py():
                return True
    return False


MIXED_TEXT = "text, though most of its values are numbers"
"""Reason why a column of text with mostly numbers is no feature."""

WITH_UNIT = "text: numbers with a unit"
"""Reason why a column of numbers with a unit is no feature."""

TEXT_ID = "text that looks like an id: every value is different"
DATES = "text that looks like dates"
MANY_VALUES = "text of many values"
ONE_VALUE, NO_VALUES = "text of one value", "no value in any row"
"""Reasons why a column of text is no category, and so no feature."""

ID_OR_DATE = "text that looks like ids or dates"
"""Reason why a column of text with few levels is no feature."""


def without_codes(table: Table, kept: Collection[str] = ()) -> Table:
    """Return a table without features that look like ids or codes, unless `kept` names them.

    A small table keeps all its features. So does a table whose features all look like ids or codes.
    """
    if table.n_rows < MIN_ROWS_TO_DROP:
        return table
    found: dict[str, list[np.ndarray]] = {
        one.column: []
        for one, kind in zip(table.features, table.types, strict=True)
        if isinstance(one, Numeric | TextNumber) and kind != "bool"
    }
    for span in _spots(table.layout.extents):
        chosen = [k for k, one in enumerate(table.features) if one.column in found]
        if not chosen:
            break
        part = replace(_only(table, chosen), where=None)
        X = np.concatenate([block.X for block in source_of(part).blocks(part, span)])
        for name, values in zip(part.columns, X.T, strict=True):
            found[name].append(values[~np.isnan(values)])
            if not may_be_code(name, np.concatenate(found[name])):
                del found[name]  # not read in the other ranges of the sample
    reasons = {name: code_reason(name, np.concatenate(parts)) for name, parts in found.items()}
    codes = {name: why for name, why in reasons.items() if why is not None and name not in kept}
    if not {one.column for one in table.features} - codes.keys():
        return table
    texts = {one.column: PLAIN_TEXT for one in table.features if isinstance(one, TextNumber)}
    return without_features(table, {name: texts.get(name, why) for name, why in codes.items()})


def without_features(table: Table, reasons: dict[str, str]) -> Table:
    """Return the table without the features of columns in `reasons`, and record the reasons."""
    others = [k for k, one in enumerate(table.features) if one.column not in reasons]
    return replace(_only(table, others), left_out=table.left_out | reasons)


def texts_of_numbers(
    table: Table, names: Sequence[str], known: Collection[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the text columns in which all values are numbers, judged by a sample of the rows.

    The second result has reasons why other columns, which are almost numeric, are no features.
    Either some values are not numbers, or numbers have a unit. A column with the same number in
    all rows is returned only if `known` (the model's numeric columns) names it.
    """
    words: dict[str, set[str]] = {name: set() for name in names}
    mixed: dict[str, str] = {}
    for name, values in _sample(table, words):
        if not numeric_text.is_unicode(values):
            del words[name]
        elif numeric_text.are_numbers(values):
            words[name] |= set(numeric_text.trimmed(values).drop_null().unique().to_pylist())
        else:
            del words[name]
            if numeric_text.are_mostly_numbers(values):
                mixed[name] = MIXED_TEXT
            elif numeric_text.have_unit(values):
                mixed[name] = WITH_UNIT
    return [name for name in words if len(words[name]) > 1 or name in known], mixed


def texts_of_few_levels(table: Table, names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the text columns that can be categories, since they have few different values.

    The second result has the reason against each of the other columns, such as "text of many
    values".
    """
    counts = _value_counts(table, names)
    few = [name for name in names if name in counts and has_few_levels(counts[name])]
    out = [name for name in few if is_named_like_code(name) or numeric_text.are_dates(counts[name])]
    reasons = dict.fromkeys(out, ID_OR_DATE)
    for name, words in counts.items():
        if name in few:
            continue
        if len(words) == words.total() >= MIN_ROWS_TO_DROP and not any(" " in one for one in words):
            reasons[name] = TEXT_ID
        elif len(words) < 2:
            reasons[name] = ONE_VALUE if words else NO_VALUES
        elif numeric_text.are_dates(words):
            reasons[name] = DATES
        elif is_named_like_code(name) and all(map(str.isdecimal, words)):
            reasons[name] = CODE  # the reason for numbers, as in CSV
        else:
            reasons[name] = MANY_VALUES if len(words) > MOST_LEVELS else PLAIN_TEXT
    return [name for name in few if name not in out], reasons


def with_compared(table: Table, scan: Scan) -> Table:
    """Return the table with `compared` set.

    These columns are not features, but a report shows how clusters differ in them.
    """
    types = scan.types if scan.comparable is None else scan.comparable
    left = [name for name, why in table.left_out.items() if why not in INCOMPARABLE]
    kinds = {name: types[name] for name in left if name in types}
    numbers = {n for n, of in kinds.items() if is_numeric(of) and not pa.types.is_boolean(of)}
    apart = {*scan.problems, table.id, "", *filter(is_named_like_code, numbers)}
    names = [n for n, of in kinds.items() if n not in apart and (n in numbers or is_category(of))]
    found: list[Feature] = []
    for name, values in _value_counts(table, names[:MAX_COMPARED_COLUMNS]).items():
        if name in numbers and len(values) > 10:
            found.append(Numeric(name))
        elif are_comparable(values):
            codes = Codes.of(name, values, frequent(values))
            # Values that the sample lacks need a bucket.
            found.append(codes.model_copy(update={"rest": max(codes.rest, 1e-9)}))
    return replace(table, compared=tuple(found))


def _value_counts(table: Table, names: Sequence[str]) -> dict[str, Counter[str]]:
    """Return the counts of values in the sample, without columns of text that are not UTF-8."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for name, values in _sample(table, counts):
        if is_text(values.type) and not numeric_text.is_unicode(values):
            del counts[name]
            continue
        counts[name].update(text_counts(values))
    return counts


def check_unicode(table: Table, names: Sequence[str]) -> None:
    """Raise `DataError` for a column of text that is not UTF-8 in the sample."""
    for name, values in _sample(table, names):
        if not numeric_text.is_unicode(values):
            raise numeric_text.unicode_error(table.shown, name)


def _sample(table: Table, names: Collection[str]) -> Iterator[tuple[str, pa.Array]]:
    """Yield pairs of a column's name and values, for each column and each part of the sample.

    If the caller removes a name from `names` meanwhile, the column is no longer read.
    """
    for span in _spots(table.layout.extents):
        for batch in source_of(table).batches(table, span, list(names)) if names else ():
            for name in [name for name in batch if name in names]:
                yield name, plain_values(batch[name])


def _only(table: Table, places: Sequence[int]) -> Table:
    features = tuple(table.features[k] for k in places)
    return replace(table, features=features, types=tuple(table.types[k] for k in places))


def _spots(extents: Sequence[int]) -> list[Span]:
    """Return the ranges of rows that make up the sample; a small table is one range.

    The ranges are spread over the table. In each storage unit, the first range begins at the
    unit's first row, since all rows before a range have to be decoded, too.
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
            room = min(extents[unit], 131_072) - SPOT_ROWS
            depths[inside] = np.linspace(0, max(room, 0), len(inside))
    starts = np.unique(borders[units] + depths).tolist()
    return [Span(start, min(start + SPOT_ROWS, n_rows), SPOT_ROWS) for start in starts]
