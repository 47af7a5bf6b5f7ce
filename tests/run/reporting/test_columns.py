"""The part of the report on columns: shares, medians, separating columns, functions."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from distsvc.models.columns.model import ColumnModel
from distsvc.models.rows.scaling import Scaling
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import ColumnPart, ColumnsPart
from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.job import run_job
from distsvc.run.labelling.counts import CountedLevels, shares_in
from distsvc.run.learning.preparation import Preparation
from distsvc.run.reporting.columns import (
    REST,
    _shares,
    doubt_of_functions,
    explained_ranks,
    explained_share,
    function_pairs,
    level_of_gaps,
    number_fields,
    separating_columns,
    share_at_limit,
)
from distsvc.run.reporting.files import _doubts_of_missing
from distsvc.run.work import plan
from distsvc.storage.rows.features import Codes, Numeric, OneHot, TextNumber
from tests.published_files import labels_of
from tests.small_runs import forget, small_job

N = 900
ORDER = np.array([0, 1])


def test_explained_shares_are_0_by_chance_and_1_for_copies():
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


def test_rare_levels_share_an_entry():
    rows = np.tile(np.arange(20, 0, -1), (2, 1))
    found = _shares([f"v{k}" for k in range(19)], rows, ORDER)
    assert found["levels"] == [*(f"v{k}" for k in range(PAGE_LIMITS.levels)), REST]
    assert found["rows"][0][-1] == sum(range(2, 9))


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
def test_clusters_are_compared_by_features_and_other_columns(name, tmp_path):
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
    labels = labels_of(tmp_path / "out")
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


@pytest.mark.usefixtures("quick_page")
def test_profiles_have_the_shares_of_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "PILOT_ROWS", 300)
    pq.write_table(planted(), tmp_path / "t.parquet")
    model, given = {"algorithm": "bico", "n_clusters": 3}, {"columns": ["spend", "plan", "tier"]}
    encoded = {"encode": {"plan": "onehot", "tier": "onehot"}}
    report = run_job(small_job(tmp_path / "t.parquet", model, input=given, preprocess=encoded))
    assert report.profiles.rows == 300
    counted = {column.column: column for column in report.columns.columns}
    for profile in report.profiles.clusters:
        levels = [one for one in profile.columns if one.present]
        assert levels
        for one in levels:
            column, level = one.column.split("=")
            own, k = counted[column], report.columns.label.index(profile.label)
            shares = shares_in(np.array(own.rows), k)[:, own.levels.index(level)]
            assert [one.inside.share, one.outside.share] == shares.tolist()


def test_a_gap_that_follows_from_a_level_is_no_doubt():
    status, k = np.arange(N) % 3, np.arange(N)
    counted = CountedLevels("status", ("on", "off", "left"), np.arange(3.0), slice(1, 2))
    for gap, words in (
        ((status != 2) | (k < 15), "missing unless status=left"),
        ((status == 1) & (k > 9), "missing where status=off"),
        ((status != 2) | (k < 40), ""),
        ((status == 1) & (k < 27), ""),
    ):
        raw = np.column_stack([np.where(gap, np.nan, k), status])
        assert level_of_gaps(raw, 0, [counted]) == words
        part = ColumnPart(column="years", kind="number", absent=[590, 10], gap=words)
        found = {"columns": ColumnsPart(label=[0, 1], size=[600, 300], sample=N, columns=[part])}
        doubts = [] if words else ["most rows of cluster 7 have no 'years'"]
        assert _doubts_of_missing(found, np.array([7, 8]), {}) == doubts
        for doubt in _doubts_of_missing(found, np.array([7, 8]), {"years": "'new'"}):
            assert doubt.endswith(", or a new value, such as 'new', which counts as missing")


N_FLAGS = 400
OWN = OneHot(column="plan", known=("a", "b"), rest=0.0)


def rows(labels, **columns):
    """Return a labelled pilot, its features and the clusters' ids; the column plan is one-hot."""
    features = [OWN if name == "plan" else Numeric(name) for name in columns]
    raw = np.column_stack([np.asarray(values, float) for values in columns.values()])
    spread = np.nanstd(raw, axis=0)
    X = np.nan_to_num((raw - np.nanmean(raw, axis=0)) / np.where(spread > 0, spread, 1))
    pilot = PilotRows(np.arange(N_FLAGS), raw, X, np.asarray(labels), np.ones(N_FLAGS), sample=None)
    return pilot, features, np.arange(labels.max() + 1) + 10


@pytest.fixture
def planted_flag():
    random = np.random.default_rng(0)
    y, flag = random.integers(0, 3, N_FLAGS), random.random(N_FLAGS) < 0.5
    return y, flag, 6.0 * y + random.normal(size=N_FLAGS), random.normal(size=N_FLAGS)


def found(pilot, features, ids, integers=()):
    d = pilot.X.shape[1]
    scaling = Scaling(np.zeros(d), np.ones(d), np.zeros(d), "none")
    return separating_columns(
        pilot, features, ids, Preparation(scaling, np.zeros(d), True), integers
    )


def test_an_irrelevant_boolean_is_named_with_the_pairs_that_it_separates(planted_flag):
    y, flag, x, noise = planted_flag
    (one,) = found(*rows(2 * y + flag, x=x, flag=flag, noise=noise))
    assert one.pairs == [(10, 11), (12, 13), (14, 15)]
    assert one.note == ("3 pairs of clusters differ only in flag. To ignore it: --exclude flag")


def test_no_flag_is_to_be_excluded_if_several_separate_clusters(planted_flag):
    y, flag, x, noise = planted_flag
    other = np.random.default_rng(2).random(N_FLAGS) < 0.5
    labels = 4 * y + 2 * flag + other
    notes = [one.note for one in found(*rows(labels, x=x, flag=flag, other=other, noise=noise))]
    assert "6 pairs of clusters differ only in flag" in notes
    assert "6 pairs of clusters differ only in other" in notes


def test_an_irrelevant_category_is_named(planted_flag):
    y, flag, x, _ = planted_flag
    pilot, features, ids = rows(2 * y + flag, x=x, plan=flag)
    codes = np.column_stack([flag, ~flag, np.zeros(N_FLAGS)]).astype(float)
    raw = np.column_stack([pilot.raw[:, :1], codes])
    X = np.column_stack([pilot.X[:, :1], codes])
    pilot = PilotRows(pilot.numbers, raw, X, pilot.labels, pilot.scores, None)
    (one,) = found(pilot, features, ids)
    assert (one.column, one.pairs[0]) == ("plan", (10, 11))


def test_an_irrelevant_category_of_codes_is_named(planted_flag):
    y, flag, x, _ = planted_flag
    raw = np.column_stack([x, 2.0 * flag])
    raw[(y == 1) & (np.arange(N_FLAGS) % 5 == 0), 1] = 1.0
    columns = ColumnModel.of(raw, np.array([False, True]))
    origin = np.zeros(columns.layout.width)
    scaling = Scaling(np.zeros(2), np.ones(2), np.zeros(2), "none")
    labels = np.where(y == 1, 0, 1 + flag)
    k = np.flatnonzero(y != 0)
    pilot = PilotRows(k, raw[k], columns.prepared(raw)[k], labels[k], np.ones(len(k)), None)
    plan = Codes(column="plan", known=("a", "b", "c"), rest=0.0)
    features, ids = [Numeric("x"), plan], np.arange(3)
    (one,) = separating_columns(pilot, features, ids, Preparation(scaling, origin, False, columns))
    assert one.clause == "clusters 1 and 2 differ only in plan"


def test_a_code_that_alone_separates_clusters_is_named(planted_flag):
    y, flag, x, noise = planted_flag
    region = np.where(flag, 1, 8) + np.arange(N_FLAGS) % 3
    more = 6.0 * y + np.random.default_rng(1).normal(size=N_FLAGS)
    table = rows(2 * y + flag, x=x, region=region, noise=noise, more=more)
    assert found(*table)[0].note.endswith("differ only in region")  # stored as double
    (one,) = found(*table, integers=["region"])
    assert one.clause == "3 pairs of clusters differ only in region"
    assert one.note == (
        "3 pairs of clusters differ only in region. If its values are codes without an order: "
        "--set columns.region=category"
    )
    amount = region + 0.5
    (one,) = found(*rows(flag.astype(int), x=x, amount=amount, noise=noise, more=noise**3))
    assert one.clause == "they differ only in amount"
    assert one.note == "The clusters differ only in amount"
    price = np.exp(0.1 * noise) * np.where(flag, 1.0, 100.0)
    (one,) = found(*rows(flag.astype(int), x=x, price=price, noise=noise, more=noise**3))
    assert one.note == (
        "The clusters differ only in price: one cluster's values are about 100 times the "
        "other's. Do some rows have another unit?"
    )
    number = np.arange(N_FLAGS) + np.where(flag, 1_000, 900_000)
    table = rows(flag.astype(int), x=x, number=number, noise=noise, more=noise**3)
    (one,) = found(*table, integers=["number"])
    assert one.note == (
        "The clusters differ only in number, whose values are nearly all different. If they are "
        "ids: --exclude number"
    )
    region = np.where(flag, 1.0, 2.0)
    (one,) = found(*rows(2 * y + flag, x=x, price=price, region=region, noise=noise, more=more))
    assert one.note == (
        "3 pairs of clusters differ in only one numeric column, price: one cluster's values are "
        "about 100 times the other's. Do some rows have another unit?"
    )
    assert found(*rows(flag.astype(int), x=x, price=price**0.2, region=region, noise=noise)) == []


def test_numbers_need_several_features_and_separate_ranges(planted_flag):
    _, flag, x, noise = planted_flag
    region, labels = np.where(flag, 1, 8) + np.arange(N_FLAGS) % 3, flag.astype(int)
    assert found(*rows(labels, x=x, region=region, noise=noise)) == []
    near, more = np.where(flag, 1, 3) + np.arange(N_FLAGS) % 3, noise**3
    assert found(*rows(labels, x=x, region=near, noise=noise, more=more)) == []
    gaps = np.where(np.random.default_rng(1).random(N_FLAGS) < 0.6, np.nan, region)
    assert found(*rows(labels, x=x, region=gaps, noise=noise, more=more)) == []


def test_a_boolean_that_agrees_with_other_columns_is_not_named(planted_flag):
    y, _, x, noise = planted_flag
    assert found(*rows(y, x=x, flag=y == 1, noise=noise)) == []
    assert found(*rows(y, x=x, noise=noise, constant=np.zeros(N_FLAGS))) == []


def test_many_small_differences_or_one_cluster_name_no_column():
    random = np.random.default_rng(0)
    y = np.arange(N_FLAGS) % 2
    many = {f"x{k}": 0.6 * y + random.normal(size=N_FLAGS) for k in range(80)}
    assert found(*rows(y, flag=y, **many)) == []
    assert found(*rows(0 * y, flag=y, **many)) == []


def pairs(**columns):
    raw = np.column_stack(list(columns.values())).astype(float)
    n = len(raw)
    rows = PilotRows(np.arange(n), raw, raw, np.zeros(n, int), np.ones(n), sample=None)
    features = [(Numeric, TextNumber)[k % 2](column=name) for k, name in enumerate(columns)]
    return function_pairs(rows, features)


def test_columns_of_few_or_missing_values_are_no_functions():
    x = np.random.default_rng(0).normal(size=500)
    gaps = np.where(np.arange(500) % 50 == 0, np.nan, x**3)
    assert pairs(flag=x > 0, same=x > 0) == []
    assert pairs(x=x, gaps=gaps) == []  # too few rows have both to be sure
    assert pairs(constant=np.zeros(500), empty=np.full(500, np.nan)) == []


def test_the_doubt_is_one_clause():
    assert doubt_of_functions([]) == []
    clause = "'a' and 'b' are functions of each other"
    assert doubt_of_functions([("a", "b")]) == [clause]
    many = [("a", "b"), ("a", "c"), ("b", "c")]
    assert doubt_of_functions(many) == [f"{clause}, as are 2 more pairs of columns"]
    assert doubt_of_functions(many[:2]) == [f"{clause}, as is 1 more pair of columns"]


def test_the_share_of_the_rows_at_a_limit():
    lead = np.maximum(np.random.default_rng(0).lognormal(-2.0, 1.0, 2000).round(3), 0.05)
    share = np.mean(lead == 0.05)
    assert share_at_limit(lead) == f"{share:.0%} of the known values equal the lowest, 0.05"
    assert share_at_limit(np.append(-lead, np.nan)).endswith("equal the highest, -0.05")
    assert share_at_limit(np.where(lead > 0.1, lead, np.nan)) == ""
    assert share_at_limit(np.where(lead == 0.05, 0.2, lead + 0.05)) == "", "a value inside"
