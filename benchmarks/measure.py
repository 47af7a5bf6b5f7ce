"""What the benchmarks share: data, timing, tables on the screen, tidy files with the machine named.

Nothing heavy is imported before it is used: the peak memory that the system reports for a
process includes its parent's at the time it was started.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distsvc.bench.machine import machine

if TYPE_CHECKING:
    import numpy as np

Row = dict[str, Any]
FOLDERS = ("bsgd", "imdh", "shapes")
"""Where tables are, below the folder of the data."""


def load(data: Path, name: str, split: int | None = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the features (n, d) float64 and labels (n,) of a set.

    Where rows belong to splits, those of one split, 0 for training; None for all rows.
    """
    import numpy as np
    import pyarrow.parquet as pq

    table = pq.read_table(table_path(data, name))
    features = [c for c in table.column_names if c not in ("label", "split")]
    X = np.column_stack([table[c].to_numpy().astype(np.float64) for c in features])
    y = table["label"].to_numpy()
    if "split" in table.column_names and split is not None:
        chosen = table["split"].to_numpy() == split
        X, y = X[chosen], y[chosen]
    return X, y


def table_path(data: Path, name: str) -> Path:
    """Return the path of a set's table, or end with a message that names the missing file."""
    paths = [data / folder / f"{name}.parquet" for folder in FOLDERS]
    for path in paths:
        if path.exists():
            return path
    missing = " or ".join(map(str, paths))
    tables = " or ".join(f"{folder}/NAME.parquet" for folder in FOLDERS)
    raise SystemExit(f"there is no {missing}; --data takes a folder with {tables}")


def standardised(X: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and variance 1; constant ones become 0."""
    scale = X.std(axis=0)
    scale[scale == 0.0] = 1.0
    return (X - X.mean(axis=0)) / scale


def interleaved(actions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Call every action once to warm up, then in turns; return the seconds of each call."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(repeats):
        for name, action in actions.items():
            started = time.perf_counter()
            action()
            seconds[name].append(time.perf_counter() - started)
    return seconds


@contextmanager
def work_folder(given: Path | None) -> Iterator[Path]:
    """Yield the folder for large files: the one given, which is kept, or one that is removed."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="distsvc-benchmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(out: Path, name: str, rows: list[Row]) -> None:
    """Write ``<name>.csv``: the rows, each with the machine; those of `earlier` keep theirs."""
    out.mkdir(parents=True, exist_ok=True)
    where = machine()
    with open(out / f"{name}.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0] | where), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: shown(value, 6) for key, value in (where | row).items()})
    print(f"-> {out / name}.csv\n", flush=True)


def earlier(out: Path, name: str) -> list[Row]:
    """Return the rows of ``<name>.csv`` as they were published, none where there is no file."""
    path = out / f"{name}.csv"
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as stream:
        return [
            {key: value_of(text) for key, text in row.items()} for row in csv.DictReader(stream)
        ]


def value_of(text: str) -> Any:
    """Return what `shown` wrote: nothing, a whole number, a number or a text."""
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def show(title: str, rows: list[Row]) -> None:
    """Print rows as a table."""
    cells = [list(rows[0])] + [[shown(v, 4) for v in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [not isinstance(v, str) for v in rows[0].values()]
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


def pivot(rows: list[Row], index: tuple[str, ...], column: str, value: str) -> list[Row]:
    """Return one row per `index`, with the values side by side under the names in `column`."""
    wide: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in index)
        wide.setdefault(key, dict(zip(index, key, strict=True)))[row[column]] = row[value]
    return list(wide.values())
