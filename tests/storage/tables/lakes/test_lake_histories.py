"""Tables with a log after random histories: the answer is that of their live rows.

Few histories run in the suite; more by hand::

    python -m tests.storage.tables.lakes.test_lake_histories --histories 50 --seed 0

What is compared is a published run on the table with one on a Parquet file of the rows that the
format's own library reads, and every state of the table, row by row.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from distsvc.job.file import parse_job
from distsvc.run.job import run_job
from distsvc.storage.tables.opening import open_table, read_blocks
from tests.published_files import read_labels

pytestmark = pytest.mark.usefixtures("quick_page")

KEYS = ["a b", "c/d", "50%", "é", "x=1", None]


class Rows:
    """Makes rows with an id that no other row has."""

    def __init__(self, random: np.random.Generator):
        self.random, self.next = random, 0

    def some(self, ids: Any = None) -> pa.Table:
        """Return 1 to 60 rows: new ones, or other values of some ids."""
        if ids is None:
            n = int(self.random.integers(1, 60))
            ids = np.arange(self.next, self.next + n)
            self.next += n
        n = len(ids)
        near = self.random.integers(0, 3, n)[:, None]
        X = near * [8.0, -5.0] + self.random.normal(0.0, 0.5, (n, 2))
        return pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "x0": X[:, 0],
                "x1": pa.array(X[:, 1], pa.float32()),
                "n": pa.array(self.random.integers(0, 9, n), pa.int32()),
                "key": pa.array([KEYS[k] for k in self.random.integers(0, len(KEYS), n)]),
            }
        )


class DeltaHistory:
    """A Delta table that deltalake changes."""

    def __init__(self, folder: Path, random: np.random.Generator):
        from deltalake import write_deltalake

        self.path, self.random, self.rows = str(folder / "table"), random, Rows(random)
        self.url, self.cleaned = f"delta://{self.path}", 0
        by = ["key"] if random.random() < 0.5 else None
        write_deltalake(self.path, self.rows.some(), partition_by=by)

    def close(self) -> None:
        """Nothing is open."""

    @property
    def table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.path)

    def change(self) -> None:
        """Do something to the table; it keeps a row at least."""
        one = self.random.choice(
            ["append", "append", "delete", "update", "compact", "merge", "vacuum", "sort", "column"]
        )
        getattr(self, f"_{one}")()
        if not self.live().num_rows:
            self._append()

    def live(self) -> pa.Table:
        """Return the live rows as deltalake reads them."""
        return pa.table(self.table.to_pyarrow_table())

    def states(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the URLs of some earlier states whose files are there, and their rows."""
        from deltalake import DeltaTable

        for version in {int(self.random.integers(self.cleaned, self.table.version() + 1))}:
            rows = pa.table(DeltaTable(self.path, version).to_pyarrow_table())
            yield f"{self.url}?version={version}", rows

    def _append(self) -> None:
        from deltalake import write_deltalake

        mode = "merge" if "extra" in self.live().column_names else None
        write_deltalake(self.path, self.rows.some(), mode="append", schema_mode=mode)

    def _delete(self) -> None:
        self.table.delete(f"id % {self.random.integers(2, 6)} = 0")

    def _update(self) -> None:
        self.table.update(updates={"x0": "x0 + 0.25"}, predicate=f"n = {self.random.integers(9)}")

    def _compact(self) -> None:
        self.table.optimize.compact()

    def _sort(self) -> None:
        self.table.optimize.z_order(["x0"])

    def _merge(self) -> None:
        ids = np.arange(max(0, self.rows.next - 20), self.rows.next)
        self.rows.next += 5
        rows = self.rows.some(np.concatenate([ids, np.arange(self.rows.next - 5, self.rows.next)]))
        merge = self.table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _vacuum(self) -> None:
        table = self.table
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        self.cleaned = table.version()

    def _column(self) -> None:
        from deltalake import write_deltalake

        rows = self.rows.some()
        rows = rows.append_column("extra", pa.array(np.arange(len(rows)) * 0.5))
        write_deltalake(self.path, rows, mode="append", schema_mode="merge")


class IcebergHistory:
    """An Iceberg table in a catalog of its own, which pyiceberg changes."""

    def __init__(self, folder: Path, random: np.random.Generator):
        from pyiceberg.catalog.sql import SqlCatalog

        self.random, self.rows, self.folder = random, Rows(random), folder
        place = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self.catalog = SqlCatalog("own", **place)
        self.catalog.create_namespace("db")
        first = self.rows.some()
        table = self.catalog.create_table("db.t", schema=first.schema)
        if random.random() < 0.6:
            with table.update_spec() as spec:
                spec.add_identity("key" if random.random() < 0.5 else "n")
        table.append(first)
        self.seen = [table.current_snapshot().snapshot_id]
        self.names = {"x0": "x0"}

    def close(self) -> None:
        self.catalog.close()

    @property
    def table(self) -> Any:
        return self.catalog.load_table("db.t")

    @property
    def url(self) -> str:
        return f"iceberg://{self.table.metadata_location}"

    def change(self) -> None:
        """Do something to the table; it keeps a row at least."""
        kinds = ["append", "add_file", "delete", "overwrite", "upsert", "schema"]
        getattr(self, f"_{self.random.choice(kinds)}")()
        if not self.live().num_rows:
            self._append()
        self.seen.append(self.table.current_snapshot().snapshot_id)

    def live(self) -> pa.Table:
        """Return the live rows as pyiceberg reads them."""
        return self.table.scan().to_arrow()

    def states(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the URL of an earlier snapshot, and its rows."""
        snapshot = self.seen[int(self.random.integers(len(self.seen)))]
        rows = self.table.scan(snapshot_id=snapshot).to_arrow()
        yield f"{self.url}?snapshot={snapshot}", rows

    def _some(self) -> pa.Table:
        rows = self.rows.some()
        own = self.table.schema().as_arrow()
        x0 = self.names["x0"]
        rows = rows.rename_columns([x0 if n == "x0" else n for n in rows.column_names])
        for field in own:
            if field.name not in rows.column_names:
                rows = rows.append_column(field.name, pa.array(np.arange(len(rows)) * 0.5))
        return rows.select(own.names).cast(own)

    def _append(self) -> None:
        self.table.append(self._some())

    def _add_file(self) -> None:
        """Add a file of another writer, whose columns have no numbers, in one partition."""
        rows, table = self._some(), self.table
        for field in table.spec().fields:
            name = table.schema().find_column_name(field.source_id)
            rows = rows.filter(pc.equal(rows[name], pc.max(rows[name])))
        path = self.folder / f"added-{rows['id'][0]}.parquet"
        pq.write_table(rows.cast(pa.schema([(f.name, f.type) for f in rows.schema])), path)
        table.add_files([f"file://{path}"])

    def _delete(self) -> None:
        self.table.delete(f"n < {self.random.integers(1, 4)}")

    def _overwrite(self) -> None:
        self.table.overwrite(self._some(), f"n >= {self.random.integers(5, 9)}")

    def _upsert(self) -> None:
        rows = self._some()
        kept = self.live()
        self.table.overwrite(pa.concat_tables([kept, rows.cast(kept.schema)]))

    def _schema(self) -> None:
        from pyiceberg.types import DoubleType, LongType

        schema = self.table.schema().as_arrow()
        with self.table.update_schema() as update:
            if schema.field("n").type == pa.int32():
                update.update_column("n", LongType())
            elif self.names["x0"] == "x0":
                update.rename_column("x0", "first")
                self.names["x0"] = "first"
            elif schema.field("x1").type == pa.float32():
                update.update_column("x1", DoubleType())
            elif "extra" not in schema.names:
                update.add_column("extra", DoubleType())


def check_history(history: Any, folder: Path, steps: int, run: bool = True) -> int:
    """Change a table so many times; compare what is read after each, and a run at the end."""
    states = 0
    for _ in range(steps):
        history.change()
        for url, expected in [(history.url, history.live()), *history.states()]:
            check_rows(url, expected, folder)
            states += 1
    if run:
        check_run(history, folder)
    return states


def check_rows(url: str, expected: pa.Table, folder: Path) -> None:
    """Compare all columns of all rows of a table, by their ids."""
    names = [n for n in expected.column_names if n not in ("id", "key")]
    given = {"path": url, "columns": names, "id": "id", "classes": "key"}
    table = open_table(parse_job({"input": given, "output": {"path": "-"}}).input, folder)
    assert table.n_rows == len(expected)
    blocks = list(read_blocks(table, 0, table.n_rows, 17, with_ids=True, with_labels=True))
    if not expected.num_rows:
        assert not blocks
        return
    ids = pa.concat_arrays([block.ids for block in blocks])
    keys = pa.concat_arrays([block.labels for block in blocks])
    order, own = np.argsort(ids.to_numpy()), expected.sort_by("id")
    np.testing.assert_array_equal(ids.to_numpy()[order], own["id"].to_numpy())
    assert keys.take(pa.array(order)).to_pylist() == own["key"].to_pylist()
    X = np.concatenate([block.X for block in blocks])[order]
    for k, name in enumerate(names):
        np.testing.assert_array_equal(X[:, k], own[name].cast(pa.float64()).to_numpy())


def check_run(history: Any, folder: Path) -> None:
    """Compare a published run with that on a file of the live rows, in the order that was read."""
    live = history.live()
    features = [name for name in ("x0", "first", "x1", "n") if name in live.column_names]
    ids = published(history.url, folder / "out", features)
    order = pc.index_in(ids["id"], live["id"].combine_chunks())
    pq.write_table(live.take(order), folder / "live.parquet", row_group_size=50)
    expected = published(str(folder / "live.parquet"), folder / "expected", features)
    assert len(ids) == len(live)
    assert ids.equals(expected)
    again = published(history.url, folder / "out", features)
    assert again.equals(ids)


def published(path: str, out: Path, features: list[str]) -> pa.Table:
    """Return the labels of a run of a quick algorithm; one that is published already stays."""
    before = manifest_of(out)
    job = {
        "input": {"path": path, "columns": features, "id": "id"},
        "model": {"algorithm": "bico", "n_clusters": 3},
        "cluster": {"workers": 0},
        "output": {"path": str(out)},
    }
    run_job(parse_job(job))
    manifest = manifest_of(out)
    assert before is None or before["run_id"] == manifest["run_id"]
    return read_labels(out)


def manifest_of(out: Path) -> Any:
    path = out / "manifest.json"
    return json.loads(path.read_text()) if path.exists() else None


FORMATS: dict[str, Callable[[Path, np.random.Generator], Any]] = {
    "delta": DeltaHistory,
    "iceberg": IcebergHistory,
}


@pytest.mark.filterwarnings("ignore")  # of what the libraries say of their own calls
@pytest.mark.parametrize("name", FORMATS)
def test_the_answer_is_that_of_the_live_rows_after_a_random_history(
    name: str, tmp_path: Path
) -> None:
    history = FORMATS[name](tmp_path, np.random.default_rng(5))
    with closing(history):
        check_history(history, tmp_path, steps=3)


def main() -> None:
    """Go through so many random histories of 3 to 12 changes of each format."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=FORMATS, action="append")
    given = parser.parse_args()
    for name in given.format or FORMATS:
        history = FORMATS[name]
        states = 0
        for number in range(given.histories):
            random = np.random.default_rng([given.seed, number])
            with tempfile.TemporaryDirectory() as folder:
                steps = int(random.integers(3, 13))
                with closing(history(Path(folder), random)) as one:
                    states += check_history(one, Path(folder), steps)
        print(f"{name}: {given.histories} of {given.histories} histories, {states} states compared")


if __name__ == "__main__":
    main()
