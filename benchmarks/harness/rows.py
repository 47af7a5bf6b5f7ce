"""Rows of results: written as Parquet or CSV, read again, shown, put side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.storage.places.arrays import make_folder, write_content, write_whole

Row = dict[str, Any]
"""One row of a tidy table, value by column: what CSV and Parquet hold, text, numbers or None."""


def write_rows(path: Path, rows: Iterable[Row], schema: pa.Schema) -> None:
    """Write rows as a Parquet file that is whole or absent; missing values are null."""
    table = pa.Table.from_pylist(list(rows), schema=schema)
    write_whole(path, lambda stream: pq.write_table(table, stream))


def write_csv(path: Path, rows: Sequence[Row], about: Row) -> None:
    """Write rows of the same columns as CSV, each with the columns `about`, unless it has its own.

    Floats have six significant digits, missing values are empty.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0] | about), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: shown(value, 6) for key, value in (about | row).items()})
    make_folder(path.parent)
    write_content(path, text.getvalue())
    print(f"-> {path}\n", flush=True)


def read_csv(path: Path) -> list[Row]:
    """Return the rows of a file of `write_csv`, none where there is no file."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as stream:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(stream)]


def _value(text: str) -> Any:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def show(title: str, rows: Sequence[Row]) -> None:
    """Print rows as a table under the columns of the first; what a row lacks stays empty."""
    if not rows:
        return
    columns = list(rows[0])
    cells = [columns, *([shown(row.get(name), 4) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [not isinstance(value, str) for value in rows[0].values()]
    print(title)
    for line in cells:
        padded = [
            text.rjust(w) if r else text.ljust(w)
            for text, w, r in zip(line, widths, right, strict=True)
        ]
        print("  " + "  ".join(padded).rstrip())


def shown(value: Any, digits: int) -> str:
    """Return a value as text, floats with so many significant digits, thousands set apart."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if digits < 6 and abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def grouped(rows: Iterable[Row], columns: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values in columns, in the order in which those first occur."""
    alike: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple(row[column] for column in columns), []).append(row)
    return alike


def pivot(rows: Sequence[Row], index: Sequence[str], column: str, value: str) -> list[Row]:
    """Return one row per `index`, with means of `value` side by side under the names in `column`.

    A mean is over the rows that have a value; None where there is none.
    """
    names = dict.fromkeys(row[column] for row in rows)
    wide = []
    for key, alike in grouped(rows, index).items():
        found = {name: mean_of(r[value] for r in alike if r[column] == name) for name in names}
        wide.append(dict(zip(index, key, strict=True)) | found)
    return wide


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are known, None where none is."""
    known = [float(value) for value in values if value is not None]
    return mean(known) if known else None


def only(rows: Iterable[Row], **values: Any) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in values.items())]
