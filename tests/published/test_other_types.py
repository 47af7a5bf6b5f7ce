"""A published model and columns of other types than the job's table had."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import distsvc
from distsvc.cli.main import main
from distsvc.errors import DataError
from distsvc.published.predict import predict_table

pytestmark = pytest.mark.usefixtures("quick_page")

N = 900


@pytest.fixture(scope="module")
def frame():
    random = np.random.default_rng(0)
    kind = random.integers(0, 3, N)
    table = pd.DataFrame(
        {
            "amount": np.where(
                random.random(N) < 0.4,
                0.1,
                np.round(np.exp(np.array([2.0, 4.0, 6.0])[kind] + 0.3 * random.normal(size=N)), 2),
            ),
            "age": np.round(np.array([20.0, 40.0, 70.0])[kind] + 2 * random.normal(size=N)),
            "visits": random.poisson(np.array([9, 4, 1])[kind]) / 10,
            "plan": np.array(["free", "paid", "gold"], object)[kind],
        }
    )
    table.loc[::17, "age"] = -9999.0
    table.loc[::13, "plan"] = None
    return table


@pytest.fixture(scope="module")
def run(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    frame.to_parquet(folder / "in.parquet", index=False)
    job = {
        "input": {"path": str(folder / "in.parquet")},
        "preprocess": {"missing_values": [-9999]},
        "output": {"path": str(folder / "out")},
    }
    return distsvc.run(job)


def predicted(run, path, folder):
    predict_table(run.path, str(path), str(folder / "predicted"))
    return distsvc.load(folder / "predicted").labels()["label"].to_numpy()


OTHERS = {
    "32-bit floats": {"amount": np.float32, "age": np.float32, "visits": np.float32},
    "text of numbers": {"amount": str, "age": str},
}


@pytest.mark.parametrize("kind", OTHERS)
def test_the_same_numbers_of_another_type_have_the_same_labels(run, frame, kind, tmp_path):
    labels = run.labels()["label"].to_numpy()
    other = frame.astype(OTHERS[kind])
    assert (run.model.predict(other) == labels).all()
    other.to_parquet(tmp_path / "other.parquet", index=False)
    assert (predicted(run, tmp_path / "other.parquet", tmp_path) == labels).all()


def test_a_job_finds_sentinels_in_numbers_that_are_text(run, frame, tmp_path):
    frame.astype({"age": str}).to_parquet(tmp_path / "text.parquet", index=False)
    job = {
        "input": {"path": str(tmp_path / "text.parquet")},
        "preprocess": {"missing_values": [-9999]},
        "output": {"path": str(tmp_path / "out")},
    }
    assert distsvc.run(job).labels()["score"].equals(run.labels()["score"])


def test_a_missing_text_that_pandas_stores_as_nan_is_missing(run, frame):
    assert run.report.input.missing == {"age": len(frame[::17]), "plan": len(frame[::13])}
    (place, *_) = np.flatnonzero(frame["plan"].isna())
    row = pd.DataFrame([{**frame.iloc[place].to_dict(), "plan": np.nan}])
    assert row["plan"].dtype == np.float64
    assert run.model.predict(row) == run.labels()["label"].to_numpy()[[place]]


def test_a_dictionary_holds_columns_or_one_row(run, frame):
    labels = run.labels()["label"].to_numpy()
    columns = {name: frame[name].to_numpy() for name in frame}
    columns["plan"][frame["plan"].isna()] = np.nan
    assert (run.model.predict(columns) == labels).all()
    assert run.model.predict(frame.iloc[1].to_dict()) == labels[[1]]
    with pytest.raises(DataError, match=r"^the rows: column 'age', row 1: .* found 'x'"):
        run.model.predict(columns | {"age": np.array([1, "x"], object)})


def test_a_table_without_rows_or_columns(run, frame):
    assert not len(run.model.predict(frame[:0]))
    with pytest.raises(DataError, match="once; missing: amount, age, visits, plan; found"):
        run.model.predict(pd.DataFrame())


def test_an_empty_field_of_a_csv_file_is_a_missing_number(run, frame, tmp_path):
    frame.head(1).assign(age=None).to_csv(tmp_path / "one.csv", index=False)
    expected = run.model.predict(frame.head(1).assign(age=np.nan))
    assert predicted(run, tmp_path / "one.csv", tmp_path) == expected


@pytest.mark.parametrize("value", [1, True, 1.5])
def test_numbers_in_place_of_words_are_refused(run, frame, value, tmp_path):
    other = frame.assign(plan=value)
    with pytest.raises(DataError, match=r"column 'plan' is .*, expected text such as '.+', '.+'"):
        run.model.predict(other)
    other.to_parquet(tmp_path / "other.parquet", index=False)
    with pytest.raises(DataError, match="plan"):
        predicted(run, tmp_path / "other.parquet", tmp_path)


EMPTY = {"null": None, "float": np.nan, "text": pd.array([None] * N, "string")}


@pytest.mark.parametrize("name", ["visits", "plan"])
@pytest.mark.parametrize("kind", [*EMPTY, "csv"])
def test_a_column_without_a_value(run, frame, name, kind, tmp_path):
    other, path = frame.assign(**{name: EMPTY.get(kind)}), tmp_path / f"night.{kind}"
    other.to_csv(path, index=False) if kind == "csv" else other.to_parquet(path, index=False)
    found = f"column '{name}' of {path} has no value in any row"
    job = {"input": {"path": str(path)}, "output": {"path": str(tmp_path / "out")}}
    night = job | {"continuity": {"previous": str(run.path)}}
    with pytest.raises(DataError, match=f"{re.escape(found)}; mend .* model.mode=assign"):
        distsvc.run(night)
    assigned = distsvc.run(night | {"model": {"mode": "assign"}, "checks": {"max_drift": False}})
    assert f"{found}, and counts as missing" in assigned.report.warnings
    labels = assigned.labels()["label"].to_numpy()
    with pytest.warns(UserWarning, match=f"column '{name}' has no value in any row, and counts as"):
        assert (labels == run.model.predict(frame.assign(**{name: EMPTY["null"]}))).all()
    assert (labels == predicted(run, path, tmp_path)).all()
    first = distsvc.run(job | {"output": {"path": str(tmp_path / "first")}})
    assert f"not used as features: '{name}' (no value in any row)" in first.report.warnings


def test_columns_without_a_value_in_a_stream(run, frame, recwarn):
    empty = frame.assign(visits=np.nan, plan=None)
    parts = [empty[:500], frame[500:].assign(plan=None), frame[:0]]
    assert len(pa.Table.from_batches(run.model.predict_batches(parts))) == N
    words = "column 'plan' has no value in any row, and counts as missing"
    assert [str(each.message) for each in recwarn] == [words]
    recwarn.clear()
    run.model.score_samples(empty)
    words = "columns 'visits', 'plan' have no value in any row, and count as missing"
    assert words in [str(each.message) for each in recwarn]
    recwarn.clear()
    run.model.predict(empty[:9])  # too few rows
    assert not recwarn.list


@pytest.mark.filterwarnings("ignore:.* lie outside, more than expected")
@pytest.mark.parametrize(
    ("column", "change", "warning"),
    [
        ("plan", lambda x: x.str.upper(), "100.0% of the values of 'plan' .* are new to the"),
        ("plan", lambda x: x.where(x.index % 9 > 0, "new"), "of the values of 'plan' .* are new"),
        ("visits", lambda x: x * 100, "values of 'visits' .* are about 100 times the values of"),
        ("visits", lambda x: x.where(x.index % 9 > 0, -999), "missing values: -999 in 'visits'"),
    ],
)
def test_other_values_are_a_warning(run, frame, tmp_path, caplog, column, change, warning):
    other = frame.assign(**{column: change(frame[column])})
    with pytest.warns(UserWarning, match=warning):
        labels = run.model.predict(other)
    other.to_parquet(tmp_path / "other.parquet", index=False)
    caplog.set_level("INFO", "distsvc")
    predict_table(run.path, str(tmp_path / "other.parquet"), str(tmp_path / "out"))
    assert any(re.search(warning, str(vars(one).get("fields"))) for one in caplog.records)
    assert distsvc.load(tmp_path / "out").labels()["label"].to_pylist() == labels.tolist()
    words = ["predict", str(run.path), str(tmp_path / "other.parquet"), str(tmp_path / "quiet")]
    said = CliRunner().invoke(main, [*words, "--quiet"])
    assert re.search(f"warning: .*{warning}", said.stderr)


@pytest.mark.filterwarnings("ignore:.* lie outside, more than expected")
@pytest.mark.parametrize("first", [1, 15, N])
def test_few_other_values_are_no_warning(run, frame, first):
    gone = frame.assign(plan=None)[: min(first, 15)]
    few = frame.assign(plan=frame.plan.where(frame.index % 30 > 0, "new"))[:first]
    cents = frame.assign(visits=frame.visits * 100)[: min(first, 99)]
    for rows in gone, few, cents, frame.assign(plan="new")[: min(first, 15)]:
        run.model.predict(rows)


def test_a_night_with_new_words_only_names_them(run, frame, tmp_path):
    frame.assign(plan=frame.plan.str.upper()).to_csv(tmp_path / "night.csv", index=False)
    job = {
        "input": {"path": str(tmp_path / "night.csv")},
        "preprocess": {"missing_values": [-9999]},
        "continuity": {"previous": str(run.path)},
        "output": {"path": str(tmp_path / "out")},
    }
    new = "column 'plan' has only values that are new to the previous run, such as '[A-Z]+',"
    with pytest.raises(DataError, match=f"{new} expected .*'free'"):
        distsvc.run(job)
