"""Tables as people have them: each is read right, or refused in words that say what to do."""

import decimal

import dask
import dask.array
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr
from scipy import sparse

from distsvc import IncrementalMDH
from distsvc.errors import DataError, DistsvcError, JobFileError
from tests.small_tables import everything, opened

pytestmark = pytest.mark.usefixtures("quick_page")

N = 12
x = np.arange(N) * 1.5
NAN = float("nan")


def parquet(folder, columns=None, **options):
    path = folder / "t.parquet"
    table = columns if isinstance(columns, pa.Table) else pa.table({"x": x} | columns)
    pq.write_table(table, path, **options)
    return path


def text(folder, content, name="t.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
    return path


def lines(mark, spelled=str):
    rows = ([spelled(value), spelled(value + 0.25)] for value in x.tolist())
    return "\n".join([mark.join("ab"), *map(mark.join, rows)]) + "\n"


def folders(folder, keys, write=None):
    for k, key in enumerate(keys):
        inner = folder / "t" / f"date={key}"
        inner.mkdir(parents=True)
        pq.write_table(pa.table({"x": x + 100 * k}), inner / "a.parquet")
    return folder / "t"


def group(folder, zarr_format=3, names=None, attributes=None, **arrays):
    path = folder / "t.zarr"
    node = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name, values in arrays.items():
        dimensions = (names or {}).get(name)
        kind = {"dimension_names": dimensions} if zarr_format == 3 else {}
        array = node.create_array(name, data=values, **kind)
        if zarr_format == 2 and dimensions:
            array.attrs["_ARRAY_DIMENSIONS"] = dimensions
        array.attrs.update((attributes or {}).get(name, {}))
    return path


def together(folder, **files):
    inner = folder / "t"
    inner.mkdir()
    for name, content in files.items():
        place = inner / name.replace("__", ".")
        if isinstance(content, bytes):
            place.write_bytes(content)
        else:
            pq.write_table(pa.table(content), place)
    return inner


def row_groups(folder):
    path = folder / "t.parquet"
    with pq.ParquetWriter(path, pa.schema([("x", pa.float64())])) as writer:
        for part in (x[:0], x[:5], x[5:5], x[5:], x[:0]):
            writer.write_table(pa.table({"x": part}))
    return path


def column(values, kind=None, wanted=None, named=True, **options):
    """A case: a column `c` beside `x`, and its numbers, or None where it is none by default."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    given = {"columns": ["x", "c"]} if named else {}
    X = x[:, None] if wanted is None else np.column_stack([x, np.array(wanted, float)])
    return lambda folder: parquet(folder, {"c": array}, **options), given, X


AB = np.column_stack([x, x + 0.25])
X = x[:, None]

READ = {
    "CSV with semicolons": (lambda f: text(f, lines(";")), {}, AB),
    "CSV of Windows": (lambda f: text(f, lines(",").replace("\n", "\r\n")), {}, AB),
    "CSV with empty lines": (lambda f: text(f, lines(",").replace("\n", "\n\n")), {}, AB),
    "CSV with newlines in quotes": (
        lambda f: text(f, "t;a,x\n" + "".join(f'"1;\n""2""",{v}\n' for v in x)), {}, X,
    ),
    "CSV with pandas' index": (
        lambda f: text(f, pd.DataFrame({"x": x}).to_csv()), {}, X,
    ),
    "CSV with years as names": (
        lambda f: text(f, "id,2025,2026\n" + "".join(f"r,{v},{v + 0.25}\n" for v in x)), {}, AB,
    ),
    "struct": (lambda f: parquet(f, {"s": [{"x": 5.0}] * N}), {}, X),
    "map": column([[("k", 1)]] * N, pa.map_(pa.string(), pa.int64()), named=False),
    "wide decimals": column([decimal.Decimal("2.5")] * N, pa.decimal256(60, 2), [2.5] * N),
    "dictionary of numbers": column(pa.array([1.5, 2.5] * 6).dictionary_encode(), None,
                                    [1.5, 2.5] * 6),
    "dictionary of text": column(pa.array(["a", "b"] * 6).dictionary_encode(), named=False),
    "of no type": column([None] * N, pa.null(), named=False),
    "constant": column([7.0] * N, None, [7.0] * N),
    "negative zero": column([-0.0, 0.0] * 6, None, [-0.0, 0.0] * 6),
    "fixed lists of float16": column(
        [[np.float16(1), np.float16(2)]] * N, pa.list_(pa.float16(), 2), [[1, 2]] * N
    ),
    "fixed lists of text": column([["a"]] * N, pa.list_(pa.string(), 1), named=False),
    "lists of lists": column([[[1.0]]] * N, named=False),
    "binary": column([b"1"] * N, named=False),
    "large text": column(["1"] * N, pa.large_string(), named=False),
    "text by views": column(["1"] * N, pa.string_view(), named=False),
    "empty row groups": (row_groups, {}, X),
    "zstd": column([1.0] * N, None, [1.0] * N, compression="zstd"),
    "brotli": column([1.0] * N, None, [1.0] * N, compression="brotli"),
    "an index of pandas": (
        lambda f: parquet(f, pa.Table.from_pandas(pd.DataFrame({"x": x}, x[::-1]))), {}, X,
    ),
    "kinds of pandas": (
        lambda f: parquet(f, pa.Table.from_pandas(pd.DataFrame({
            "x": x, "i": pd.array([1, None] * 6, dtype="Int64"), "c": pd.Categorical(["u"] * N),
            "n": pd.Categorical([1, 2] * 6), "o": pd.Series([1, 2.5] * 6, dtype=object),
        }))), {}, np.column_stack([x, [1, NAN] * 6, [1, 2] * 6, [1, 2.5] * 6]),
    ),
    "one Hive folder": (lambda f: folders(f, ["1", "2"]) / "date=2", {}, X + 100),
    "a folder of Spark": (
        lambda f: together(f, **{"part-0__snappy__parquet": {"x": x}, "_SUCCESS": b"",
                                 "_metadata": b"?", ".part-0.crc": b"?", "readme__txt": b"?"}),
        {}, X,
    ),
    "xarray's dimensions": (
        lambda f: group(f, 3, {"time": ["time"], "s": ["s"], "v": ["time", "s"]},
                        v=AB, time=np.arange(N), s=np.arange(2), crs=np.array(4326)), {}, AB,
    ),
    "xarray's dimensions in Zarr 2": (
        lambda f: group(f, 2, {"time": ["time"], "a": ["time"]},
                        {"a": {"_FillValue": "AAAAAAAA+H8="}}, a=x, time=np.arange(N)), {}, X,
    ),
    "some arrays of Zarr": (
        lambda f: group(f, a=x, cube=np.zeros((N, 2, 2)), b=x[:5]), {"columns": ["a"]}, X,
    ),
    "svmlight": (
        lambda f: text(f, "1 qid:3 1:2 3:4 # c\n-1 2:1\n", "t.svm"), {},
        np.array([[2.0, 0, 4], [0, 1, 0]]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_read(name, tmp_path):
    write, fields, wanted = READ[name]
    rows, found, _, _ = everything(opened(write(tmp_path), tmp_path, **fields), block_rows=5)
    assert len(rows) == len(wanted)
    np.testing.assert_array_equal(found[:, np.newaxis].reshape(wanted.shape), wanted)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


def packed(attributes, zarr_format=3, values=x, **more):
    return lambda f: group(f, zarr_format, attributes={"a": attributes}, a=values, **more)


FEW = "leave (it|them) out: --exclude"
REFUSED = {
    "iris without header": (lambda f: text(f, "5.1,3.5,setosa\n4.9,3.0,setosa\n"), {},
                            "has no header: .*put a line with the columns' names above it"),
    "a vector and a column": (lambda f: parquet(f, {"v": [[1.0]] * N, "v[0]": x}), {},
                              r"both become a column named 'v\[0\]'"),
    "a column without a name": (lambda f: parquet(f, {"": x}), {"columns": [""]},
                                "has no name: name its column"),
    "classes of lists": (column([[1]] * N)[0], {"classes": "c"}, "expected a single value per row"),
    "a column that came later": (
        lambda f: together(f, a__parquet={"x": x}, b__parquet={"x": x, "y": x}), {}, FEW),
    "names in another case": (
        lambda f: together(f, a__parquet={"x": x}, b__parquet={"X": x}), {}, FEW),
    "CSV and Parquet": (
        lambda f: together(f, a__parquet={"x": x}, b__csv=b"x\n1\n"), {}, r"glob such as \*"),
    "Parquet and JSON lines": (
        lambda f: together(f, a__parquet={"x": x}, b__jsonl=b"{}"), {},
        r"b.jsonl is not named like .*or read the others by a glob such as \*.parquet"),
    "Parquet beside a part of another kind": (
        lambda f: together(f, a__parquet={"x": x}, **{"part-1": b"x"}), {},
        "part-1 is not named like Zarr, CSV"),
    "a folder of Zarr stores": (
        lambda f: group(f, a=x).parent, {}, "holds the Zarr store t.zarr: give the path of one"),
    "packed numbers": (packed({"scale_factor": 0.5}), {}, "packed values .scale_factor = 0.5."),
    "a mark for missing": (packed({"_FillValue": -999}), {}, "packed values ._FillValue = -999."),
    "a cube in Zarr": (lambda f: group(f, a=x, v=np.zeros((N, 2, 2))), {},
                       rf"array 'v' of .* has 3 dimensions, expected 1.*{FEW}"),
    "other lengths in Zarr": (lambda f: group(f, a=x, b=x[:5]), {},
                              rf"array 'b' of .* has 5 rows, 'a' has 12.*{FEW}"),
}  # fmt: skip

FILES = ["t.zip", "t.csv.zip", "t.xlsx", "t.json", "t.feather", "t.npy", "t.h5", "t.txt", "t.JSON"]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    write, fields, message = REFUSED[name]
    with pytest.raises((DataError, JobFileError), match=message):
        everything(opened(write(tmp_path), tmp_path, **fields))


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_formats(name, tmp_path):
    with pytest.raises(DataError, match=f"{name} is not named like .*or write it as Parquet"):
        opened(text(tmp_path, b"?" * 20, name), tmp_path)


UUIDS = pa.array([bytes([k] * 16) for k in range(N)], pa.binary(16))
IDS = {
    "unsorted": pa.array([(k * 7) % N for k in range(N)]),
    "text": pa.array([f"r{(k * 7) % N}" for k in range(N)]),
    "text with nulls": pa.array(["a", None] * 6),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), UUIDS),
    "uint64": pa.array([2**64 - 1 - k for k in range(N)], pa.uint64()),
    "dictionary": pa.array(["a", "b"] * 6).dictionary_encode(),
    "decimals": pa.array([decimal.Decimal(2**70 + k) for k in range(N)]),
    "times": pa.array(range(N), pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("name", IDS)
def test_ids_come_back_as_they_are(name, tmp_path):
    path = parquet(tmp_path, {"id": IDS[name]})
    found = everything(opened(path, tmp_path, id="id"), block_rows=5)[2]
    assert found == IDS[name].to_pylist()


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        (["00501", "94110"], ["00501", "94110"]),
        (["99999999999999999999", "1"], ["99999999999999999999", "1"]),
        (["1.10", "1.1"], ["1.10", "1.1"]),
        (["1e5", "1"], ["1e5", "1"]),
        (["9007199254740993", "-7"], [9007199254740993, -7]),
    ],
)
def test_ids_of_csv_come_back_as_they_are(written, ids, tmp_path):
    inner = together(tmp_path, **{f"{k}__csv": f"id,x\n{v},1\n".encode() for k, v in
                                  enumerate(written)})  # fmt: skip
    assert everything(opened(inner, tmp_path, id="id"))[2] == ids


GIVEN = np.column_stack([x, x**2 % 5])
FRAME = pd.DataFrame({"x": x, "y": x**2 % 5})
MASKED = np.ma.masked_array(GIVEN, GIVEN == 4.5)
NAMED = np.array(list(map(tuple, GIVEN)), dtype=[("x", float), ("y", float)])


NOT_TAKEN = {
    "masked": (lambda: MASKED, r"a masked value in row \d"),
    "structured": (lambda: NAMED, "structured_to_unstructured"),
    "times": (lambda: GIVEN.astype("M8[s]"), r"dtype datetime64\[s\], expected numbers"),
    "pandas with NA": (lambda: FRAME.assign(y=pd.array([1, None] * 6, dtype="Int64")),
                       "'y', row 1: expected a finite number"),
    "text": (lambda: FRAME.assign(y="a"), "'y' is text, expected numbers: leave"),
    "categories": (lambda: FRAME.assign(y=pd.Categorical(["a"] * N)), "expected numbers: leave"),
    "vectors": (lambda: pa.table({"v": [[1.0]] * N}), "expected numbers: leave"),
    "columns of one name": (lambda: pd.DataFrame(GIVEN, columns=["x", "x"]), "two columns named"),
    "sparse": (lambda: sparse.csr_array(GIVEN), "takes no sparse rows"),
    "delayed": (lambda: dask.delayed(GIVEN), "expected an array"),
    "infinity": (lambda: np.where(GIVEN == 4.5, np.inf, GIVEN), "contains infinity"),
    "too large": (lambda: GIVEN * 1e300, "scale the features"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_not_taken_by_an_estimator(name):
    make, message = NOT_TAKEN[name]
    with pytest.raises((ValueError, TypeError, DistsvcError), match=message):
        IncrementalMDH(depth=2, n_init=1).fit(make())
