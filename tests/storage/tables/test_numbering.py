"""Which columns are no features by default since they number the rows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.storage.tables.numbering import ROW_NUMBER
from distsvc.storage.tables.opening import shown_columns
from tests.small_tables import opened

N = 6000


def ids(n: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns that number rows."""
    return {
        "row": np.arange(n),
        "from_1001": 1001 + np.arange(n, dtype=np.int32),
        "down": np.arange(n)[::-1] * 10.0,
        "shuffled": random.permutation(n),
        "gaps": np.cumsum(random.integers(1, 9, n)),
        "hash": random.integers(-(2**63), 2**63 - 1, n),
        "event_time": 1_700_000_000_000 + np.cumsum(1 + random.geometric(1e-4, n)),
    }


def measured(n: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns of whole numbers that say what a row is like."""
    return {
        "pixel": random.integers(0, 256, n, dtype=np.uint8),
        "cents": np.rint(random.lognormal(9.0, 2.0, n)).astype(np.int64),
        "sorted_cents": np.sort(np.rint(random.lognormal(9.0, 1.0, n)).astype(np.int64)),
        "nanoseconds": np.rint(random.normal(1e12, 1e10, n)).astype(np.int64),
        "seconds": np.sort(random.integers(0, n // 2, n)),
        "metres": random.integers(0, 200_000, n),
        "fraction": np.arange(n) + 0.5,
        "constant": np.ones(n, np.int64),
        "empty": np.full(n, np.nan),
    }


@pytest.mark.parametrize("n", [300, N])
@pytest.mark.parametrize("group", [100, N])
def test_ids_are_left_out_and_quantities_are_not(tmp_path, n, group):
    random = np.random.default_rng(0)
    own, others = ids(n, random), measured(n, random)
    if n < 1000:  # where ids with gaps can't be told from quantities, they stay
        own = {name: own[name] for name in ("row", "from_1001", "shuffled")}
    pq.write_table(pa.table(others | own), tmp_path / "t.parquet", row_group_size=group)
    table = opened(tmp_path / "t.parquet", tmp_path)
    assert table.columns == tuple(others)
    assert table.left_out == dict.fromkeys(own, ROW_NUMBER)
    assert f"row ({ROW_NUMBER})" in shown_columns(table)["left_out"]


def test_a_row_number_of_csv_is_left_out(tmp_path):
    lines = [f"{k},{k * k % 7}" for k in range(200)]
    (tmp_path / "t.csv").write_text("\n".join([",x", *lines]))
    assert opened(tmp_path / "t.csv", tmp_path).columns == ("x",)


def test_named_columns_small_tables_and_the_last_feature_stay(tmp_path):
    data = pa.table({"row": np.arange(300), "x": np.zeros(300)})
    pq.write_table(data, tmp_path / "t.parquet")
    assert opened(tmp_path / "t.parquet", tmp_path).columns == ("x",)
    assert opened(tmp_path / "t.parquet", tmp_path, columns=["row"]).columns == ("row",)
    assert opened(tmp_path / "t.parquet", tmp_path, label="x").columns == ("row",)
    pq.write_table(data.slice(0, 49), tmp_path / "few.parquet")
    assert opened(tmp_path / "few.parquet", tmp_path).columns == ("row", "x")


def test_missing_ids_are_passed_over(tmp_path):
    numbers = pa.array(np.arange(N), mask=np.arange(N) % 7 == 0)
    pq.write_table(pa.table({"row": numbers, "x": np.zeros(N)}), tmp_path / "t.parquet")
    assert opened(tmp_path / "t.parquet", tmp_path).columns == ("x",)


def test_rows_that_where_drops_are_looked_at_too(tmp_path):
    data = pa.table({"row": np.arange(N), "x": np.zeros(N), "s": np.arange(N) == 17})
    pq.write_table(data, tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path, where="s == true")
    assert table.columns == ("x",)
