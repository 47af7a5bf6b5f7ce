"""The part of the report on columns: shares, medians, and what they say about clusters."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from distsvc.run.job import run_job
from distsvc.run.reporting.columns import (
    MAX_SHOWN_LEVELS,
    REST,
    _shares,
    explained_ranks,
    explained_share,
    number_fields,
)
from tests.published_files import read_labels
from tests.small_runs import forget, small_job

N = 900
ORDER = np.array([0, 1])


def test_explained_shares_are_none_by_chance_and_all_of_copies():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, N)
    assert explained_share(np.diag([10, 20, 30])) == 1.0
    assert explained_share(np.full((3, 4), 25)) == 0.0
    assert explained_share(np.array([[10, 0], [20, 0]])) == 0.0
    assert explained_ranks(random.normal(size=N), labels) < 0.01
    x = 5.0 * labels + random.normal(size=N)
    assert explained_ranks(x, labels) > 0.8
    assert explained_ranks(np.exp(x), labels) == explained_ranks(x, labels)
    assert explained_ranks(np.ones(N), labels) == 0.0


def test_rare_levels_are_one():
    rows = np.tile(np.arange(20, 0, -1), (2, 1))
    found = _shares([f"v{k}" for k in range(19)], rows, ORDER)
    assert found["levels"] == [*(f"v{k}" for k in range(MAX_SHOWN_LEVELS)), REST]
    assert found["rows"][0][-1] == sum(range(2, 9))


def test_levels_that_are_numbers_are_in_their_order():
    rows = np.array([[1, 5, 2, 0], [1, 5, 2, 0]])
    assert _shares(["10", "9", "11"], rows, ORDER)["levels"] == ["9", "10", "11"]


def test_numbers_have_quartiles_and_two_values_have_shares():
    labels = np.repeat([0, 1], 50)
    x = np.concatenate([np.arange(50.0), np.arange(100.0, 150.0)])
    x[::10] = np.nan
    found = number_fields(x, labels, ORDER)
    assert [q[1] for q in found["quartiles"]] == [25.0, 125.0]
    assert found["leaning"] == [-1.0, 1.0]
    flag = np.where(labels == 1, 3.0, 2.0)
    found = number_fields(flag, labels, ORDER)
    assert (found["levels"], found["rows"]) == (["2", "3"], [[50, 0], [0, 50]])
    assert found["sampled"]
    assert number_fields(np.full(100, np.nan), labels, ORDER) == {}


def planted():
    random = np.random.default_rng(1)
    y = np.arange(N) % 3
    age = (20.0 * y + random.normal(30.0, 2.0, N)).round()
    return pa.table(
        {
            "spend": 10.0 * (y == 1) + random.normal(size=N),
            "age": pa.array(np.where(np.arange(N) % 9 == 4, np.nan, age), from_pandas=True),
            "plan": np.array(["basic", "pro", "max"])[np.where(random.random(N) < 0.9, y, 0)],
            "news": random.random(N) < 0.3,
            "tier": np.array(["gold", "tin"])[(y == 2).astype(int)],
            "size": 7.0 * y + random.normal(size=N),
        }
    )


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
@pytest.mark.usefixtures("quick_page")
def test_clusters_are_compared_by_features_and_by_columns_that_are_none(name, tmp_path):
    path, table = tmp_path / name, planted()
    (pq.write_table if name == "t.parquet" else pyarrow.csv.write_csv)(table, path)
    forget()
    given = {"columns": ["spend", "age", "news"]}
    job = small_job(
        path,
        {"algorithm": "bico", "n_clusters": 3},
        input={"path": str(path)} | given,
        preprocess={"missing": "median"},
        output={"path": str(tmp_path / "out")},
        cluster={"workers": 0, "partition_rows": 250, "block_rows": 90},
    )
    report = run_job(job)
    labels = read_labels(tmp_path / "out")["label"].to_numpy()
    part = report.columns
    found = {column.column: column for column in part.columns}
    assert part.size == [int((labels == c).sum()) for c in part.label]
    for column in "news", "plan", "tier":
        own = found[column]
        texts = [str(v).lower() for v in table[column].to_pylist()]
        for c, rows in zip(part.label, own.rows, strict=True):
            inside = [text for text, label in zip(texts, labels, strict=True) if label == c]
            assert rows == [inside.count(level) for level in own.levels]
        assert own.feature == (column == "news")
        assert not own.sampled
    age = found["age"]
    absent = np.isnan(table["age"].to_numpy())
    assert age.absent == [int(absent[labels == c].sum()) for c in part.label]
    assert (age.missing, age.filled) == (100, float(np.nanmedian(table["age"].to_numpy())))
    x = table["age"].to_numpy()
    for c, quartiles in zip(part.label, age.quartiles, strict=True):
        assert quartiles[1] == np.nanmedian(x[labels == c])
    assert ("size" in found and bool(found["size"].quartiles)) == (name == "t.parquet")
    assert found["tier"].explained > 0.2
    assert found["news"].explained < 0.05
    content = json.loads((tmp_path / "out/report.json").read_text())
    assert content["columns"]["columns"][0]["column"] == "spend"
