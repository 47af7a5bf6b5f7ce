"""Tables of kinds that people have: read right, or with words that name what was not.

Each holds three planted clusters and something that spoils them. A job on it ends with an error
that names the thing, or publishes with a warning that does, or finds the clusters.
"""

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.metrics import adjusted_rand_score

from distsvc.errors import DistsvcError
from distsvc.job.config import Job
from distsvc.job.file import parse_job
from distsvc.run.job import run_job
from tests.published_files import read_labels

FOUND = 0.9
"""Adjusted Rand index from which the planted clusters count as found."""

CENTRES = np.array([[0.0, 0.0, 0.0], [8.0, 0.0, 2.0], [2.0, 8.0, 4.0]])

COLUMNS = ("height", "width", "depth")

Random = np.random.Generator


class Planted(NamedTuple):
    """A table's path, its classes, what has to be named, and sections of the job."""

    path: Path
    y: np.ndarray
    thing: str
    sections: Mapping[str, Any] = MappingProxyType({})


Kind = Callable[[Path, int, Random], Planted]


def clusters(n: int, random: Random) -> tuple[dict[str, Any], np.ndarray]:
    """Return three columns of three clusters, and the classes."""
    y = random.integers(0, 3, n)
    X = CENTRES[y] + random.normal(size=(n, 3))
    return dict(zip(COLUMNS, X.T.round(6), strict=True)), y


def written(folder: Path, columns: dict[str, Any], form: str) -> Path:
    path = folder / f"t.{form}"
    if form == "parquet":
        pq.write_table(pa.table(columns), path)
    else:
        pyarrow.csv.write_csv(pa.table(columns), path)
    return path


def with_column(name: str, of: Callable[[int, Random], Any], form: str = "parquet") -> Kind:
    """Return the kind of table that has one column more."""

    def kind(folder: Path, n: int, random: Random) -> Planted:
        columns, y = clusters(n, random)
        return Planted(written(folder, columns | {name: of(n, random)}, form), y, name)

    return kind


def day_numbers(n: int, random: Random) -> np.ndarray:
    first = datetime.date(2026, 3, 30)
    days = [first + datetime.timedelta(int(k)) for k in random.integers(0, 5, n)]
    return np.array([int(day.strftime("%Y%m%d")) for day in days])


def products(n: int, random: Random) -> np.ndarray:
    first = random.integers(4 * 10**11, 5 * 10**11, 40)
    digits = first[:, None] // 10 ** np.arange(12) % 10
    check = -(digits * np.where(np.arange(12) % 2, 1, 3)).sum(axis=1) % 10
    return (first * 10 + check)[random.integers(0, 40, n)]


def nearly_unique(n: int, random: Random) -> np.ndarray:
    numbers = random.permutation(n) + 1
    twice = random.permutation(n)[: max(n // 400, 1)]
    numbers[twice] = numbers[twice - 1]
    return numbers


CODES = {
    "row": lambda n, random: np.arange(n),
    "number": nearly_unique,
    "token": lambda n, random: random.integers(0, 2**62, n),
    "customer": lambda n, random: random.permutation(900_000)[:n] + 100_000,
    "event": lambda n, random: 1_760_000_000_000 + random.integers(0, 10**9, n),
    "day": day_numbers,
    "month": lambda n, random: random.choice([202511, 202512, 202601, 202602, 202603, 202604], n),
    "article": products,
    "zip": lambda n, random: random.choice([1067, 10115, 20095, 80331, 99084], n),
    "shop_plz": lambda n, random: random.choice([1067, 10115, 20095, 80331, 99084], n),
    "ean": lambda n, random: random.integers(4 * 10**12, 5 * 10**12, 9)[random.integers(0, 9, n)],
    "user_id": lambda n, random: random.choice(50, n),
    "Unnamed: 0": lambda n, random: random.integers(0, 5 * n, n),
}


def text_numbers(folder: Path, n: int, random: Random) -> Planted:
    columns, y = clusters(n, random)
    texts = {name: list(map(str, values)) for name, values in columns.items()}
    return Planted(written(folder, texts, "parquet"), y, "height")


def one_text(folder: Path, n: int, random: Random) -> Planted:
    y = random.integers(0, 3, n)
    a = 8.0 * y + random.normal(size=n)
    columns = {"height": list(map(str, a)), "width": random.normal(size=n)}
    return Planted(written(folder, columns, "parquet"), y, "height")


def comma_texts(folder: Path, n: int, random: Random) -> Planted:
    columns, y = clusters(n, random)
    columns["height"] = [str(v).replace(".", ",") for v in columns["height"]]
    return Planted(written(folder, columns, "parquet"), y, "height")


def index(names: list[str | None]) -> Kind:
    def kind(folder: Path, n: int, random: Random) -> Planted:
        columns, y = clusters(n, random)
        levels = [random.integers(0, 4, n), random.integers(0, 3, n)][: len(names)]
        frame = pd.DataFrame(columns, pd.MultiIndex.from_arrays(levels, names=names))
        frame.to_parquet(folder / "t.parquet")
        return Planted(folder / "t.parquet", y, names[0] or "__index_level_0__")

    return kind


def vector_and_price(folder: Path, n: int, random: Random) -> Planted:
    y = random.integers(0, 3, n)
    vectors = pa.FixedSizeListArray.from_arrays(
        np.eye(3)[y].ravel() + random.normal(0, 0.1, 3 * n), 3
    )
    data = {"v": vectors, "price": random.lognormal(4.0, 0.5, n)}
    scaled = {"preprocess": {"scale": "unit"}}
    return Planted(written(folder, data, "parquet"), y, "price", scaled)


MADE: dict[str, Kind] = {
    **{f"{name} in Parquet": with_column(name, of) for name, of in CODES.items()},
    **{f"{name} in CSV": with_column(name, of, "csv") for name, of in CODES.items()},
    "columns of text": text_numbers,
    "a column of text": one_text,
    "text with commas": comma_texts,
    "an index": index(["store"]),
    "an index of two levels": index(["store", "quarter"]),
    "levels without names": index([None, None]),
    "a price beside a vector": vector_and_price,
    "a boolean": with_column("flag", lambda n, random: random.random(n) < 0.5),
    "a rare boolean": with_column("flag", lambda n, random: random.random(n) < 0.1),
    "a boolean in CSV": with_column("flag", lambda n, random: random.random(n) < 0.5, "csv"),
    "0 and 1": with_column("flag", lambda n, random: random.integers(0, 2, n)),
}  # fmt: skip


def sentinel(value: float, form: str = "parquet") -> Kind:
    """Return the kind of table of which 5 % of a column stand for a missing value."""

    def kind(folder: Path, n: int, random: Random) -> Planted:
        columns, y = clusters(n, random)
        rows = {name: np.abs(values) for name, values in columns.items()}
        rows["height"] = np.where(random.random(n) < 0.05, value, rows["height"])
        return Planted(written(folder, rows, form), y, "height")

    return kind


def with_id(of: Callable[[int, Random], Any], form: str = "parquet") -> Kind:
    def kind(folder: Path, n: int, random: Random) -> Planted:
        columns, _ = clusters(n, random)
        path = written(folder, columns | {"customer": of(n, random)}, form)
        # Clusters are found either way: only words about the ids count.
        return Planted(path, np.full(n, -1), "customer", {"input": {"id": "customer"}})

    return kind


def gaps(form: str) -> Kind:
    def kind(folder: Path, n: int, random: Random) -> Planted:
        columns, y = clusters(n, random)
        columns["height"] = pa.array(columns["height"], mask=random.random(n) < 0.1)
        return Planted(written(folder, columns, form), y, "height")

    return kind


def huge(first: int, kind_of: pa.DataType) -> Kind:
    """Return the kind of table in which only the last digits of whole numbers tell of clusters."""

    def kind(folder: Path, n: int, random: Random) -> Planted:
        y = random.integers(0, 3, n)
        steps = 300 * y + random.integers(0, 40, n)
        columns = {"nanos": pa.array([first - int(k) for k in steps], kind_of)}
        return Planted(
            written(folder, columns | {"width": random.normal(size=n)}, "parquet"), y, "nanos"
        )

    return kind


def unwritten_chunks(folder: Path, n: int, random: Random) -> Planted:
    columns, y = clusters(n, random)
    path = folder / "t.zarr"
    group = zarr.open_group(path, mode="w")
    for name, values in columns.items():
        group.create_array(name, data=values, chunks=(n // 6,))
    (path / "height" / "c" / "2").unlink()
    return Planted(path, y, "height")


def spoilt_text(encoding: str, head: str = "", words: tuple[str, ...] = ()) -> Kind:
    def kind(folder: Path, n: int, random: Random) -> Planted:
        columns, y = clusters(n, random)
        names, rows = ["größe", "width", "depth"], np.column_stack(list(columns.values()))
        cells = [[str(value) for value in row] for row in rows]
        for row, word in enumerate(words):
            cells[7 * row + 3][1] = word
        lines = [head + ",".join(names), *(",".join(row) for row in cells)]
        (folder / "t.csv").write_bytes("\n".join(lines).encode(encoding))
        return Planted(folder / "t.csv", y, "width" if words else "t.csv")

    return kind


def three_points(folder: Path, n: int, random: Random) -> Planted:
    y = np.arange(n) % 3
    return Planted(
        written(folder, dict(zip(COLUMNS, CENTRES[y].T, strict=True)), "parquet"), y, "height"
    )


OTHER_KINDS: dict[str, Kind] = {
    **{f"{value:g} for missing": sentinel(value) for value in (-9999.0, 999.0, 1e20, -1.0)},
    "-9999 for missing in CSV": sentinel(-9999.0, "csv"),
    "ids that come twice": with_id(lambda n, random: random.integers(0, n // 2, n)),
    "ids that come twice in CSV": with_id(lambda n, random: random.integers(0, n // 2, n), "csv"),
    "ids that are missing": with_id(
        lambda n, random: pa.array(np.arange(n), mask=random.random(n) < 0.1)
    ),
    "gaps": gaps("parquet"),
    "gaps in CSV": gaps("csv"),
    "near 2^64": huge(2**64 - 1, pa.uint64()),
    "near 2^63": huge(2**63 - 1, pa.int64()),
    "chunks that are not there": unwritten_chunks,
    "Latin-1": spoilt_text("latin-1"),
    "UTF-16": spoilt_text("utf-16"),
    "a comment": spoilt_text("utf-8", "# of Tuesday\n"),
    "words for missing": spoilt_text("utf-8", "", ("n.a.", "missing", "-")),
    "three points": three_points,
}
"""Kinds that have nothing to do with which columns are features."""

TABLES = [
    *((name, size, seed) for name in MADE for size, seed in [(600, 0)]),
    *((name, 2000, 1) for name in ("number in Parquet", "token in CSV", "day in CSV", "an index")),
    ("a boolean", 2000, 1),
    *((name, 600, 2) for name in OTHER_KINDS),
]


@pytest.mark.parametrize(("name", "n", "seed"), TABLES)
def test_nothing_is_wrong_without_a_word(tmp_path, quick_page, name, n, seed):
    made = (MADE | OTHER_KINDS)[name](tmp_path, n, np.random.default_rng(seed))
    quick = made.thing in CODES and n < 2000
    model = {"algorithm": "imdh", "n_init": 2} if quick else {"effort": "fast"}
    content = {
        "input": {"path": str(made.path)},
        "model": model,
        "cluster": {"workers": 0},
        "output": {"path": str(tmp_path / "out")},
    }
    more = made.sections
    sections = {key: content.get(key, {}) | more.get(key, {}) for key in {**content, **more}}
    said, labels = outcome(parse_job(sections), tmp_path / "out")
    told = any(made.thing in words for words in said)
    found = len(labels) > 0 and adjusted_rand_score(made.y, labels) >= FOUND
    assert told or found, said


def outcome(job: Job, out: Path) -> tuple[list[str], np.ndarray]:
    """Return what a job says, the error that ends it or its warnings, and the labels if any."""
    try:
        report = run_job(job)
    except DistsvcError as error:
        return [str(error)], np.zeros(0)
    return report.warnings, read_labels(out)["label"].to_numpy()
