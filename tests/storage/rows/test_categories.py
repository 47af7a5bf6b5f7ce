"""Categories: the encodings of text, booleans and integers."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError, JobFileError
from distsvc.inputs.mixed import MOST_LEVELS
from distsvc.job.config import InputConfig, PreprocessConfig
from distsvc.run.work.plan import with_categories
from distsvc.storage.rows.features import (
    Frequency,
    OneHot,
    Uncounted,
    descriptions,
    one_hot_columns,
    restore,
)
from distsvc.storage.tables import values as passes
from distsvc.storage.tables.opening import fingerprint, open_table, shown_columns
from tests.small_tables import everything

TEXT = ["b"] * 20 + ["a"] * 20 + ["c"] * 12 + ["rare"] * 3 + [None]


def opened(tmp_path, data, encode, name="t.parquet", **given):
    """Write a table and open it; `given` are keys of [input]."""
    path = tmp_path / name
    if name.endswith(".csv"):
        rows = zip(*data.values(), strict=True)
        path.write_text("\n".join(",".join(map(str, row)) for row in [tuple(data), *rows]) + "\n")
    else:
        pq.write_table(pa.table(data), path, row_group_size=8)
    config = InputConfig(path=str(path), **given)
    return open_table(config, tmp_path / "staging", PreprocessConfig(encode=encode))


def counted(table, cuts=(), **given):
    borders = [0, *cuts, table.n_rows]
    return with_categories(table, list(itertools.pairwise(borders)), **given)


@pytest.mark.parametrize("values", [
    pa.array(TEXT), pa.array(TEXT, pa.large_string()), pa.array(TEXT).dictionary_encode(),
    pa.array([{"a": 7, "b": -2, "c": 30, "rare": 4, None: None}[v] for v in TEXT]),
], ids=["text", "large text", "dictionary", "integers"])  # fmt: skip
@pytest.mark.parametrize("block_rows", [5, 100])
def test_a_column_for_each_value_and_one_for_the_rest(tmp_path, values, block_rows):
    table = opened(tmp_path, {"k": values, "x": [k % 5 for k in range(len(TEXT))]}, {"k": "onehot"})
    table, notes = counted(table, cuts=[3, 40])
    words = ["-2", "7", "30"] if pa.types.is_integer(values.type) else ["a", "b", "c"]
    assert table.columns == (*(f"k={word}" for word in words), "k=other", "x")
    X = everything(table, block_rows=block_rows)[1]
    first, second = ("b", "a") if words[0] == "-2" else ("a", "b")
    places = {first: 0, second: 1, "c": 2, "rare": 3}
    expected = [np.full(4, np.nan) if v is None else np.eye(4)[places[v]] for v in TEXT]
    np.testing.assert_array_equal(X[:, :4], expected)
    assert notes == []
    assert one_hot_columns(table.features) == [slice(0, 4)]
    assert shown_columns(table)["used"] == "k (3 values, 5.5% other), x"


def test_booleans_and_frequencies(tmp_path):
    data = {"k": TEXT, "b": [True] * 30 + [False] * 26}
    table, _ = counted(opened(tmp_path, data, {"b": "onehot", "k": "frequency"}))
    assert table.columns == ("log(share(k))", "b=true", "b=false", "b=other")
    X = everything(table)[1]
    shares = {"a": 20 / 55, "b": 20 / 55, "c": 12 / 55, "rare": 3 / 55, None: np.nan}
    np.testing.assert_allclose(X[:, 0], np.log([shares[v] for v in TEXT]), rtol=1e-15)
    np.testing.assert_array_equal(X[:, 1], data["b"])


def test_rare_values_have_their_mean_share(tmp_path):
    values = ["a"] * 80 + [f"city {k}" for k in range(20)]
    table, _ = counted(opened(tmp_path, {"k": values}, {"k": "frequency"}))
    np.testing.assert_allclose(np.exp(everything(table)[1][:, 0]), [0.8] * 80 + [0.01] * 20)
    table = opened(tmp_path, {"k": ["a", "b"] * 50}, {"k": "frequency"})
    assert counted(table)[0].features[0].rare == 0.01  # one row of what comes up later


def test_the_bucket_has_another_name_than_values(tmp_path):
    values = ["other"] * 20 + ["(other)"] * 12 + ["x"]
    table, _ = counted(opened(tmp_path, {"k": values}, {"k": "onehot"}))
    assert table.columns == ("k=other", "k=(other)", "k=((other))")
    assert everything(table)[1][-1].tolist() == [0.0, 0.0, 1.0]


def test_the_most_frequent_values_that_are_not_rare():
    counts = {f"v{k:03}": 1000 - k for k in range(60)} | {"once": 1}
    feature = Uncounted(column="k", kind="onehot").counted(counts)
    assert feature.known == tuple(f"v{k:03}" for k in range(MOST_LEVELS))
    few = Uncounted(column="k", kind="frequency").counted({"a": 99_901, "b": 99, "c": 100})
    assert few.known == ("a",)  # the others have less than a thousandth
    assert few.rare == 199 / 100_100 / 2


def test_only_rows_of_where_are_counted_and_the_fingerprint_needs_no_counts(tmp_path):
    data = {"k": ["a"] * 20 + ["b"] * 20, "day": [1] * 20 + [2] * 20, "x": range(40)}
    table = opened(tmp_path, data, {"k": "onehot"}, where="day == 2")
    known, _ = counted(table)
    assert known.columns == ("k=b", "k=other", "x")
    assert fingerprint(table) == fingerprint(known)
    assert everything(known)[1][:, 0].tolist() == [1.0] * 20
    table, _ = counted(opened(tmp_path, data, {"k": "onehot"}, where="k != 'c' and x >= 0"))
    assert table.columns == ("k=a", "k=b", "k=other", "day"), "a column of `where` is encoded"


def test_whole_numbers_of_csv_are_values_as_they_are_written(tmp_path):
    data = {"code": [7] * 12 + [12] * 12, "mixed": ["1"] * 20 + ["n"] * 4, "x": range(24)}
    table, _ = counted(opened(tmp_path, data, {"code": "onehot", "mixed": "onehot"}, "t.csv"))
    assert table.columns[:2] + table.columns[3:5] == ("code=12", "code=7", "mixed=1", "mixed=other")


def test_codes_of_csv_keep_their_zeros(tmp_path, monkeypatch):
    monkeypatch.setattr("distsvc.storage.tables.csv.source._BLOCK_BYTES", 128)
    codes = ["7"] * 60 + ["007"] * 30 + ["", "NA", '""'] + ["A1"] * 20
    numbers = np.arange(len(codes))
    data = {"code": codes, "plain": numbers % 2, "x": numbers % 5}
    table, _ = counted(opened(tmp_path, data, {"code": "onehot"}, "t.csv"), [50])
    assert table.columns == ("code=7", "code=007", "code=A1", "code=other", "plain", "x")
    X = everything(table)[1]
    assert X[:, :3].argmax(axis=1)[[0, 60, 93]].tolist() == [0, 1, 2]
    assert np.isnan(X[:, 0]).nonzero()[0].tolist() == [90, 91, 92], "NA is no number"
    with pytest.raises(DataError, match=r"'code' \(text\) with 7, which has another type"):
        opened(tmp_path, data, {"code": "onehot"}, "t.csv", where="code == 7")


def test_codes_of_csv_may_look_unlike_in_each_file(tmp_path):
    files = {"a": "7\n" * 12, "b": "n\n" * 12, "c": "007\n" * 12, "d": '""\n' * 2}
    for name, lines in files.items():
        (tmp_path / f"{name}.csv").write_text(f"code\n{lines}")
    preprocess = PreprocessConfig(encode={"code": "frequency"})
    of = InputConfig(path=str(tmp_path / "*.csv")), tmp_path / "staging", preprocess
    table, _ = counted(open_table(*of))
    assert table.features[0].known == ("007", "7", "n")
    (tmp_path / "b.csv").write_text("code\n" + "7.5\n" * 12)
    with pytest.raises(JobFileError, match=r"column 'code' of .* is a number, expected text"):
        open_table(*of)


def test_a_mapping_is_saved_and_checked(tmp_path):
    encode = {"k": "onehot", "c": "frequency"}
    table, _ = counted(opened(tmp_path, dict.fromkeys(encode, TEXT), encode))
    content = descriptions(table.features)
    assert restore(content) == table.features
    assert [type(one) for one in restore(content)] == [OneHot, Frequency]
    with pytest.raises(ValueError, match="expected 3 shares, found 1"):
        restore([content[1] | {"shares": [0.5]}])
    with pytest.raises(ValueError, match="found a value twice"):
        restore([content[0] | {"known": ["a", "a"]}])


def test_a_missing_column_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"preprocess.encode: .* has no column 'k'"):
        opened(tmp_path, {"x": [1, 2]}, {"k": "onehot"})


def test_too_many_and_too_long_values_are_refused(tmp_path, monkeypatch):
    table = opened(tmp_path, {"k": [f"id {n}" for n in range(50)]}, {"k": "frequency"})
    monkeypatch.setattr(passes, "MAX_VALUES", 30)
    with pytest.raises(
        DataError, match=r"column 'k', read as categories, has more than 30 different .*leave it"
    ):
        counted(table)
    table = opened(tmp_path, {"k": ["a", "b" * 300]}, {"k": "onehot"})
    with pytest.raises(DataError, match="'k', read as categories, has a text of 300"):
        counted(table)


def test_the_mapping_of_the_run_before_is_kept_until_much_is_new(tmp_path):
    encode = {"k": "onehot"}
    before, _ = counted(opened(tmp_path, {"k": ["a"] * 60 + ["b"] * 40}, encode))
    near = opened(tmp_path, {"k": ["b"] * 96 + ["new"] * 4}, encode)
    table, notes = counted(near, before=before.features)
    assert table.features == before.features
    assert notes == []
    far = opened(tmp_path, {"k": ["a"] * 80 + ["new"] * 20}, encode)
    table, notes = counted(far, before=before.features)
    assert table.features == before.features
    assert table.new_values == {"k": "'new'"}
    [note] = notes
    assert note.startswith("20.0% of the values of 'k' (0.0% when the categories were chosen)")
    assert " are new or rare, such as 'new', and count as " in note
    other = opened(tmp_path, {"k": ["a"] * 80 + ["new"] * 20}, {"k": "frequency"})
    assert counted(other, before=before.features)[0].columns == ("log(share(k))",)
