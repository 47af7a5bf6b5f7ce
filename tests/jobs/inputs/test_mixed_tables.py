"""A table as people have it: text, flags and missing values, without an option."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.metrics import adjusted_rand_score

import distsvc

N = 1500


@pytest.fixture(scope="module")
def customers(tmp_path_factory):
    """Write four segments and return the folder, the table and the segments."""
    random = np.random.default_rng(0)
    segment = random.integers(4, size=N)
    country = np.array([["DE", "FR"], ["UK", "US"], ["DE", "UK"], ["IT", "IT"]], object)
    table = pa.table(
        {
            "customer": [f"c{i}" for i in range(N)],
            "age": pa.array(
                random.normal(np.array([25, 40, 60, 45])[segment], 4).round(),
                mask=random.random(N) < 0.1,
            ),
            "spend": random.lognormal(np.array([2.0, 4.0, 3.0, 5.5])[segment], 0.4).round(2),
            "visits": random.poisson(np.array([20, 3, 8, 1])[segment]),
            "premium": random.random(N) < np.array([0.1, 0.6, 0.2, 0.9])[segment],
            "country": pa.array(
                country[segment, random.integers(2, size=N)], mask=random.random(N) < 0.05
            ),
            "note": pa.nulls(N, pa.string()),
        }
    )
    folder = tmp_path_factory.mktemp("customers")
    pa.csv.write_csv(table, folder / "customers.csv")
    return folder, table, segment


@pytest.fixture(scope="module")
def run(customers):
    folder, _, _ = customers
    sections = {"input": {"path": str(folder / "customers.csv")}, "cluster": {"workers": 0}}
    return distsvc.run(sections | {"output": {"path": str(folder / "out")}})


def test_the_segments_are_found_without_an_option(customers, run):
    assert adjusted_rand_score(customers[2], run.labels()["label"].to_numpy()) > 0.8


def test_the_report_counts_missing_values_and_names_levels(customers, run):
    table, found = customers[1], run.report.input
    assert found.missing == {name: table[name].null_count for name in ("age", "country")}
    assert found.columns == ["age", "spend", "visits", "premium", "country"]
    columns = {column.column: column for column in run.report.columns.columns}
    assert sorted(columns["country"].levels) == ["DE", "FR", "IT", "UK", "US"]
    assert {name: columns[name].missing for name in found.missing} == found.missing
    assert columns["spend"].kind == "continuous"
    assert columns["premium"].kind == "binary"


def test_the_saved_model_labels_rows_as_the_job_did(customers, run):
    table, labels = customers[1], run.labels()
    answer = run.model.label(table)
    assert answer["label"].equals(labels["label"])
    assert answer["score"].equals(labels["score"])
    one = table.slice(7, 1).set_column(5, "country", pa.array([None], pa.string()))
    assert run.model.predict(one)[0] in run.model.ids
