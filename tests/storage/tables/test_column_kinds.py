"""Columns of a job: text of few levels as codes, kinds by [columns], columns left out by name."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError, JobFileError
from distsvc.job.config import ColumnKind
from distsvc.job.file import parse_job
from distsvc.run.work.plan import STORED_PLAN, Plan
from distsvc.storage.rows.columns import PLAIN_TEXT
from distsvc.storage.rows.features import levels_of, nominal_columns
from distsvc.storage.rows.id_detection import CODE
from distsvc.storage.tables.opening import notes_on_columns, open_table
from distsvc.storage.tables.values import ID_OR_DATE, MANY_VALUES, MIXED_TEXT, ONE_VALUE, TEXT_ID

N = 1000


def customers():
    random = np.random.default_rng(0)
    country = random.choice(["DE", "FR", "UK"], N, p=[0.5, 0.3, 0.2]).astype(object)
    country[:5] = ["XX", "YY", "YY", "ZZ", None]
    return pa.table(
        {
            "customer": [f"c{i}" for i in range(N)],
            "age": pa.array(random.normal(40, 10, N).round(), mask=np.arange(N) % 20 == 3),
            "country": country,
            "premium": random.random(N) < 0.3,
            "postcode": [f"{one:05}" for one in random.integers(1001, 1301, N)],
            "city": [f"city {i}" for i in random.integers(0, 300, N)],
            "store_id": random.choice(["s1", "s2"], N),
            "month": random.choice(["2026-01", "2026-02"], N),
            "note": pa.array(["ok", "late", "x" * 300, None] * (N // 4)),
            "all": ["same"] * N,
            "grade": random.integers(1, 6, N),
        }
    )


def plan_of(folder, table=None, name="t.parquet", previous=(), kept=(), **sections):
    """Write a table and return the plan of a job."""
    path = folder / name
    table = customers() if table is None else table
    if name.endswith(".csv"):
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    given = {"path": str(path)} | sections.pop("input", {})
    out = {"path": str(folder / "out")}
    job = parse_job({"input": given, "output": out} | sections)
    kinds, mixed = job.columns, job.is_mixed
    table = open_table(job.input, folder / "staging", job.preprocess, (), kept, kinds, mixed)
    return Plan.of(job, table, previous)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_text_of_few_levels_is_a_feature_by_default(tmp_path, name):
    plan = plan_of(tmp_path, name=name)
    table = plan.table
    assert table.columns == ("age", "country", "premium", "grade")
    assert nominal_columns(table.features).tolist() == [False, True, False, False]
    assert levels_of(table.features)["country"] == ["DE", "FR", "UK", "other"]
    assert table.left_out["store_id"] == table.left_out["month"] == ID_OR_DATE
    assert table.left_out["customer"] == TEXT_ID
    reasons = {"postcode": CODE, "city": MANY_VALUES, "all": ONE_VALUE, "note": PLAIN_TEXT}
    assert {name: table.left_out[name] for name in reasons} == reasons
    X = np.concatenate([block.X for block in plan.blocks(0)])
    data = customers()
    codes = {"DE": 0, "FR": 1, "UK": 2, "XX": 3, "YY": 3, "ZZ": 3, None: np.nan}
    np.testing.assert_array_equal(X[:, 1], [codes[v] for v in data["country"].to_pylist()])
    np.testing.assert_array_equal(np.isnan(X[:, 0]), np.arange(N) % 20 == 3)
    assert STORED_PLAN.validate_json(STORED_PLAN.dump_json(plan)).table == table


def test_other_algorithms_and_rows_of_unit_length_take_numbers_only(tmp_path):
    model = {"algorithm": "imdh"}
    plan = plan_of(tmp_path, model=model, preprocess={"missing": "median"})
    assert plan.table.columns == ("age", "premium", "grade")
    assert plan_of(tmp_path, preprocess={"scale": "unit"}).table.columns == plan.table.columns
    kinds = {"country": "category"}
    plan = plan_of(tmp_path, model=model, columns=kinds, preprocess={"missing": "drop"})
    assert "country=DE" in plan.table.columns
    with pytest.raises(DataError, match="is text, expected a numeric"):
        plan_of(tmp_path, model=model, input={"columns": ["age", "country"]})


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({}, "auto"),
        ({"model": {"algorithm": "support-vector"}}, "error"),
        ({"preprocess": {"scale": "unit"}}, "error"),
        ({"preprocess": {"scale": "standard"}}, "error"),
        ({"preprocess": {"missing": "error"}}, "error"),
        ({"preprocess": {"missing": "drop"}}, "drop"),
        ({"model": {"algorithm": "imdh"}, "preprocess": {"missing": "median"}}, "median"),
    ],
)
def test_missing_values_stay_missing_where_the_algorithm_takes_them(sections, expected):
    job = parse_job({"input": {"path": "t"}, "output": {"path": "o"}} | sections)
    assert job.missing == expected


def test_a_missing_value_is_an_error_for_other_algorithms(tmp_path):
    model = {"algorithm": "support-vector"}
    plan = plan_of(tmp_path, model=model, input={"columns": ["age", "grade"]})
    with pytest.raises(DataError, match="column 'age' has 50 missing values"):
        list(plan.blocks(0))


def test_preprocess_encode_overrides_codes(tmp_path):
    plan = plan_of(tmp_path, preprocess={"encode": {"country": "onehot"}})
    assert [n for n in plan.table.columns if n.startswith("country")] == [
        "country=DE", "country=FR", "country=UK", "country=other",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_kinds_of_columns(tmp_path, name):
    kinds = {
        "age": {"kind": "continuous", "scale": "log"},
        "grade": "category",
        "store_id": "category",
        "premium": "binary",
        "country": "ignore",
    }
    table = plan_of(tmp_path, name=name, columns=kinds, input={"exclude": ["note"]}).table
    assert table.columns == ("age", "premium", "store_id", "grade")
    assert sorted(levels_of(table.features)["grade"]) == list("12345")
    assert table.column_kinds["age"] == ColumnKind(kind="continuous", scale="log")
    assert list(table.column_kinds) == ["age", "premium", "store_id", "grade"]
    assert table.left_out["country"] == "columns.country = 'ignore'"
    assert table.left_out["note"] == "input.exclude"


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_text_of_two_values_can_be_binary(tmp_path, name):
    data = customers().append_column("news", pa.array(["yes", "no"] * (N // 2)))
    found = plan_of(tmp_path, data, name).table
    given = plan_of(tmp_path, data, name, columns={"news": "binary"}).table
    assert levels_of(given.features)["news"] == ["no", "yes"]
    assert given.features == found.features
    model = {"algorithm": "imdh"}
    kinds = {"news": "binary", "age": "ignore"}
    table = plan_of(tmp_path, data, name, model=model, columns=kinds).table
    assert table.columns[-3:] == ("news=no", "news=yes", "news=other")


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ({"country": "count"}, "columns.country = 'count': column 'country' of .* is text"),
        ({"city": "ordinal"}, "columns.city = 'ordinal': .* or 'category'"),
        ({"age": "category"}, "columns.age = 'category': .* is a number, expected text, bool"),
        ({"agee": "count"}, "columns.agee: .* has no column 'agee'; did you mean 'age'"),
        ({"agee": "ignore"}, "columns.agee = 'ignore': .* has no column 'agee'"),
        ({"age": "counts"}, "columns.age must be 'continuous', .* found 'counts'"),
        ({"age": {"kind": "binary", "scale": "log"}}, "columns.age: expected no scale"),
        ({"age": {"kind": "ordinal", "scale": "log"}}, "kinds .* zero-inflated have a scale"),
        ({"age": {"kind": "count", "scal": "log"}}, "key 'columns.age.scal'; did you mean 'scale'"),
    ],
)
def test_kinds_that_do_not_fit_are_refused(tmp_path, kinds, words):
    with pytest.raises((DataError, JobFileError), match=words):
        plan_of(tmp_path, columns=kinds)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        (
            {"input": {"exclude": ["a"], "columns": ["a"]}},
            "only columns that input.exclude leaves out",
        ),
        ({"preprocess": {"log": ["a"]}, "columns": {"a": "ignore"}}, "which preprocess.log uses"),
        ({"input": {"exclude": ["a"]}, "columns": {"a": "count"}}, "which columns.a uses"),
        ({"input": {"label": "a"}, "columns": {"a": "count"}}, "'a', which input.label leaves out"),
        ({"input": {"columns": ["b"]}, "columns": {"a": "count"}}, "not among input.columns"),
    ],
)
def test_keys_that_use_and_leave_out_a_column_are_refused(sections, words):
    content = {"output": {"path": "o"}} | sections
    content["input"] = {"path": "t"} | sections.get("input", {})
    with pytest.raises(JobFileError, match=words):
        parse_job(content)


def test_an_unknown_column_to_leave_out_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"input.exclude: .* has no column 'nots'; did you mean"):
        plan_of(tmp_path, input={"exclude": ["nots"]})


def test_a_column_of_a_list_can_be_left_out(tmp_path):
    given = {"columns": ["age", "grade", "city"], "exclude": ["city", "note"]}
    table = plan_of(tmp_path, input=given).table
    assert table.columns == ("age", "grade")
    assert table.left_out["city"] == "input.exclude"


def test_a_faulty_column_can_be_left_out(tmp_path):
    """Most of its values are numbers, and numbers with text are an error in CSV."""
    table = pa.table({"x": np.arange(100.0) % 9, "y": ["1", "2", "3", "?"] * 25})
    with pytest.raises(DataError, match="'y'"):
        plan_of(tmp_path, table, "t.csv")
    assert plan_of(tmp_path, table, "t.csv", input={"exclude": ["y"]}).table.columns == ("x",)


def test_levels_of_the_run_before_are_kept(tmp_path):
    before = plan_of(tmp_path).table
    table = customers()
    table = table.set_column(2, "country", pa.array(["FR", "IT", "JP", "CN"] * (N // 4)))
    kept = tuple(before.stored)
    plan = plan_of(tmp_path, table, "u.parquet", before.features, kept)
    assert plan.table.columns == before.columns
    X = next(plan.blocks(0)).X
    np.testing.assert_array_equal(X[:4, 1], [1, 3, 3, 3])
    assert any("'country'" in note for note in plan.notes)


def test_new_values_are_missing_without_a_bucket(tmp_path):
    data = pa.table({"k": ["a", "b"] * 50, "x": np.arange(100.0) % 9})
    before = plan_of(tmp_path, data).table
    later = data.set_column(0, "k", pa.array(["a", "c"] * 50))
    plan = plan_of(tmp_path, later, "u.parquet", before.features, tuple(before.stored))
    np.testing.assert_array_equal(next(plan.blocks(0)).X[:2, 0], [0.0, np.nan])


def test_text_of_mostly_numbers_keeps_its_reason_and_ids_are_no_warning(tmp_path):
    rows = np.arange(120)
    mixed = [f"{k}" if k % 5 else f"{k}b" for k in rows]
    data = pa.table({"mixed": mixed, "id": [f"0x{k:x}" for k in rows], "x": np.sin(rows)})
    table = plan_of(tmp_path, data).table
    assert table.left_out == {"mixed": MIXED_TEXT, "id": TEXT_ID}
    (note,) = notes_on_columns(table)
    assert "'mixed'" in note
