"""Columns that are no features by default (row numbers, ids, dates, codes), and text of numbers."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError
from distsvc.job.config import InputConfig
from distsvc.storage.rows.columns import NEW, PANDAS_INDEX
from distsvc.storage.rows.id_detection import CODE, DATE_NUMBER, PRODUCT, ROW_NUMBER
from distsvc.storage.tables.opening import notes_on_columns, open_table, shown_columns
from distsvc.storage.tables.values import MIXED_TEXT, WITH_UNIT
from tests.small_tables import everything, opened

N = 6000


def ids(n: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns of row numbers."""
    again = random.permutation(n)
    twice = random.permutation(n)[: n // 400]
    again[twice] = again[twice - 1]
    return {
        "row": np.arange(n),
        "from_1001": 1001 + np.arange(n, dtype=np.int32),
        "down": np.arange(n)[::-1] * 10.0,
        "shuffled": random.permutation(n),
        "repeated": random.permutation(np.arange(n) - (np.arange(n) % 25 == 24)),
        "gaps": np.cumsum(random.integers(1, 9, n)),
        "hash": random.integers(-(2**63), 2**63 - 1, n),
        "at_random": random.integers(0, 2**62, n),
        "event_time": 1_700_000_000_000 + np.cumsum(1 + random.geometric(1e-4, n)),
        "nearly_unique": again + 1,
        "rising": np.sort(again),
    }


def gtins(n: int, random: np.random.Generator) -> np.ndarray:
    """Numbers of 80 products, with 13 digits, the last of which is a check digit."""
    first = random.integers(4 * 10**11, 5 * 10**11, 80)
    digits = first[:, None] // 10 ** np.arange(12) % 10
    check = -(digits * np.where(np.arange(12) % 2, 1, 3)).sum(axis=1) % 10
    return (first * 10 + check)[random.integers(0, 80, n)]


def codes(n: int, random: np.random.Generator) -> dict[str, tuple[np.ndarray, str]]:
    """Columns of dates and codes, and why they are no features."""
    days = [
        datetime.date(2026, 1, 1) + datetime.timedelta(int(k)) for k in random.integers(0, 9, n)
    ]
    dates = np.array([int(day.strftime("%Y%m%d")) for day in days])
    return {
        "day": (dates, DATE_NUMBER),
        "with_gaps": (np.where(random.random(n) < 0.02, 0, dates), DATE_NUMBER),
        "minute": (dates * 10**4 + random.integers(0, 24, n) * 100 + 30, DATE_NUMBER),
        "month": (random.integers(2015, 2026, n) * 100 + random.integers(1, 13, n), DATE_NUMBER),
        "article": (gtins(n, random), PRODUCT),
        "zip": (random.choice([1067, 10115, 20095, 80331, 99084], n), CODE),
        "home_postcode": (random.integers(1000, 9999, n), CODE),
        "EAN": (random.integers(4 * 10**12, 5 * 10**12, 30)[random.integers(0, 30, n)], CODE),
        "customerId": (random.integers(0, 50, n), CODE),
        "Unnamed: 0": (random.integers(0, 3 * n, n), CODE),
    }


def measured(n: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns of whole numbers that are quantities."""
    return {
        "pixel": random.integers(0, 256, n, dtype=np.uint8),
        "cents": np.rint(random.lognormal(9.0, 2.0, n)).astype(np.int64),
        "sorted_cents": np.sort(np.rint(random.lognormal(9.0, 1.0, n)).astype(np.int64)),
        "nanoseconds": np.rint(random.normal(1e12, 1e10, n)).astype(np.int64),
        "seconds": np.sort(random.integers(0, n // 2, n)),
        "meter": np.cumsum(random.poisson(4, n)),
        "metres": random.integers(0, 200_000, n),
        "fraction": np.arange(n) + 0.5,
        "constant": np.ones(n, np.int64),
        "year": random.integers(1950, 2026, n),
        "age": random.integers(18, 90, n),
        "salary": np.rint(random.normal(50_000, 12_000, n)).astype(np.int64),
        "counts": random.poisson(3000, n),
        "revenue": 100 * np.rint(random.lognormal(13.0, 0.3, n)),
        "plan_id": random.integers(1, 5, n),
        "key": random.integers(0, 12, n),
        "bid": random.integers(100, 100_000, n),
        "mean": random.integers(0, 5000, n),
    }


@pytest.mark.parametrize("n", [300, 600, N, 20_000])
@pytest.mark.parametrize("group", [100, N])
def test_codes_are_left_out_and_quantities_are_not(tmp_path, n, group):
    random = np.random.default_rng(0)
    own, named, others = ids(n, random), codes(n, random), measured(n, random)
    if n < 400:  # nothing comes twice there
        own = {name: own[name] for name in own if name != "rising"}
    columns = others | own | {name: values for name, (values, _) in named.items()}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=group)
    table = opened(tmp_path / "t.parquet", tmp_path)
    assert table.columns == tuple(others)
    reasons = {name: why for name, (_, why) in named.items()}
    assert table.left_out == dict.fromkeys(own, ROW_NUMBER) | reasons
    assert f"row ({ROW_NUMBER})" in shown_columns(table)["left_out"]
    (note,) = notes_on_columns(table)
    assert note.startswith(f"not used as features: 'row' ({ROW_NUMBER}), ")
    assert "input.columns" not in note


def written(form: str, folder, columns: dict) -> str:
    if form == "csv":
        pyarrow.csv.write_csv(pa.table(columns), folder / "t.csv")
    else:
        group = zarr.open_group(folder / "t.zarr", mode="w", attributes={"columns": list(columns)})
        for name, values in columns.items():
            group.create_array(name, data=np.asarray(values))
    return folder / f"t.{form}"


@pytest.mark.parametrize("form", ["csv", "zarr"])
@pytest.mark.parametrize("n", [600, 20_000])
def test_sizes_and_formats_decide_alike(tmp_path, form, n):
    random = np.random.default_rng(1)
    own = ids(n, random)
    named = {name: values for name, (values, _) in codes(n, random).items()}
    others = measured(n, random)
    path = written(form, tmp_path, others | own | named)
    assert opened(path, tmp_path).columns == tuple(others)


def test_named_columns_small_tables_and_the_last_feature_stay(tmp_path):
    data = pa.table({"row": np.arange(300), "x": np.zeros(300)})
    pq.write_table(data, tmp_path / "t.parquet")
    assert opened(tmp_path / "t.parquet", tmp_path).columns == ("x",)
    named = opened(tmp_path / "t.parquet", tmp_path, columns=["row"])
    assert (named.columns, notes_on_columns(named)) == (("row",), [])
    assert opened(tmp_path / "t.parquet", tmp_path, classes="x").columns == ("row",)
    pq.write_table(data.slice(0, 49), tmp_path / "few.parquet")
    assert opened(tmp_path / "few.parquet", tmp_path).columns == ("row", "x")


def test_missing_ids_are_passed_over(tmp_path):
    numbers = pa.array(np.arange(N), mask=np.arange(N) % 7 == 0)
    pq.write_table(pa.table({"row": numbers, "x": np.zeros(N)}), tmp_path / "t.parquet")
    assert opened(tmp_path / "t.parquet", tmp_path).columns == ("x",)


@pytest.mark.parametrize("levels", [["store"], ["store", "year"], [None, None]])
def test_an_index_of_pandas_is_no_feature(tmp_path, levels):
    keys = [np.arange(60) % 7, np.arange(60) % 4][: len(levels)]
    frame = pd.DataFrame(
        {"x": np.sin(np.arange(60))}, pd.MultiIndex.from_arrays(keys, names=levels)
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)
    assert table.columns == ("x",)
    assert set(table.left_out.values()) == {PANDAS_INDEX}
    assert f"({PANDAS_INDEX})" in notes_on_columns(table)[0]
    if levels[0]:
        assert opened(tmp_path / "t.parquet", tmp_path, columns=["store"]).columns == ("store",)


def test_columns_of_the_previous_run_stay_features(tmp_path):
    columns = {"store": np.arange(600) % 7, "zip": 10_000 + np.arange(600) % 7}
    data = columns | {"x": np.sin(np.arange(600)), "t": ["1", "2"] * 300}
    pd.DataFrame(data).set_index("store").to_parquet(tmp_path / "t.parquet")
    config = InputConfig(path=str(tmp_path / "t.parquet"))
    kept = open_table(config, tmp_path / "staging", kept=("store", "zip"))
    assert set(kept.columns) == {"store", "zip"}
    assert [name for name, why in kept.left_out.items() if why == NEW] == ["x", "t"]
    assert open_table(config, tmp_path / "staging").columns == ("x", "t")


@pytest.mark.parametrize(
    "metadata", [b"{", b"[]", b'{"index_columns": 7}', b'{"index_columns": [[]]}']
)
def test_damaged_words_of_pandas_are_passed_over(tmp_path, metadata):
    data = pa.table({"x": np.sin(np.arange(60))}).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(data, tmp_path / "t.parquet")
    assert opened(tmp_path / "t.parquet", tmp_path).columns == ("x",)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_of_numbers_is_read_as_numbers(tmp_path, kind):
    words = ["1.5", " -2e3 ", "NA", "", None, "7"] * 20
    numbers = [1.5, -2000.0, np.nan, np.nan, np.nan, 7.0] * 20
    data = {"t": pa.array(words, kind), "x": np.sin(np.arange(120))}
    pq.write_table(pa.table(data), tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)
    assert table.columns == ("t", "x")
    assert "t (text read as numbers)" in shown_columns(table)["used"]
    assert "text read as numbers: 't'" in notes_on_columns(table)[0]
    np.testing.assert_array_equal(everything(table)[1][:, 0], numbers)
    named = opened(tmp_path / "t.parquet", tmp_path, columns=["t"])
    np.testing.assert_array_equal(everything(named)[1][:, 0], numbers)
    assert opened(tmp_path / "t.parquet", tmp_path, classes="t").columns == ("x",)


TEXTS = {
    "codes": (["007", "123"], "text"),
    "dates": (["2026-01-01", "2026-01-02"], "text"),
    "words": (["a", "b"], "text"),
    "infinite": (["inf", "1"], MIXED_TEXT),
    "mostly": (["1", "2", "3", "4b"], MIXED_TEXT),
    "commas": (["1,5", "2,25"], MIXED_TEXT),
    "per_cent": (["1%", "2%"], MIXED_TEXT),
    "units": (["1.5 kWh", "2,000 kWh", "30kWh", "-4 kWh", "5 kWh", ""], WITH_UNIT),
    "degrees": (["1.5 °C", "2 °C", "3 °C", "4 °C", "5 °C", "mild"], WITH_UNIT),
    "names": (["2WD", "4WD"], "text"),
    "houses": (["1a", "2b", "3c", "4d", "5e", "6f"], "text"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_other_text_is_left_out(tmp_path, name):
    words, reason = TEXTS[name]
    data = pa.table({"t": words * (120 // len(words)), "x": np.sin(np.arange(120))})
    pq.write_table(data, tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)
    assert table.left_out == {"t": reason}
    assert ["'t'" in note for note in notes_on_columns(table)] == [True] * (reason != "text")
    with pytest.raises(DataError, match="is text, expected"):
        opened(tmp_path / "t.parquet", tmp_path, columns=["t"])


def test_ids_in_text_stay_text(tmp_path):
    data = {"t": [str(k) for k in range(1000, 1600)], "x": np.sin(np.arange(600))}
    pq.write_table(pa.table(data), tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)
    assert (table.columns, table.left_out, notes_on_columns(table)) == (("x",), {"t": "text"}, [])


def test_a_later_text_that_is_no_number_is_an_error(tmp_path):
    words = [str(np.sin(k)) for k in range(5000)]
    words[600] = "about 3"  # between the spots that are looked at
    pq.write_table(pa.table({"t": words, "x": np.arange(5000.0) % 7}), tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)
    with pytest.raises(DataError, match=r"column 't', row 600: expected a number, .*'about 3'"):
        everything(table)
