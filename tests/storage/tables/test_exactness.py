"""Integers beyond 2^53: differences are preserved, or an error names the column."""

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError
from distsvc.run.job import run_job
from tests.small_runs import small_job

pytestmark = pytest.mark.usefixtures("quick_page")

N = 600
NEAR = 2**63 - 10_000, 2**64 - 10_000
NARROW = np.arange(N) % 2 * 100 + np.arange(N) % 10


def written(folder, big):
    path = folder / "t.parquet"
    pq.write_table(pa.table({"big": big, "x": other()}), path)
    return path


def parquet(folder, values, kind):
    return written(folder, pa.array(values, kind))


def dictionary(folder, values, kind):
    return written(folder, pa.array(values, kind).dictionary_encode())


def vectors(folder, values, kind):
    return written(folder, pa.array([[1, int(v)] for v in values], pa.list_(kind)))


def group(folder, values, kind):
    path = folder / "t.zarr"
    zarr.open_group(path, mode="w")
    zarr.create_array(path / "big", data=np.array(values, kind.to_pandas_dtype()), chunks=(100,))
    zarr.create_array(path / "x", data=other(), chunks=(100,))
    return path


def text(folder, values, kind):
    path = folder / "t.csv"
    lines = [f"{v},{x}" for v, x in zip(values, other(), strict=True)]
    path.write_text("\n".join(["big,x", *lines]))
    return path


def other():
    return np.random.default_rng(0).normal(size=N) + 9 * (np.arange(N) % 2)


def run(path, **sections):
    model = {"algorithm": "bico", "n_clusters": 2}
    return run_job(small_job(path, model, input={"columns": ["big", "x"]}, **sections))


@pytest.mark.parametrize("write", [parquet, dictionary, vectors, group, text])
@pytest.mark.parametrize(("first", "kind"), list(zip(NEAR, (pa.int64(), pa.uint64()), strict=True)))
def test_a_narrow_column_of_large_integers_is_refused(tmp_path, write, first, kind):
    path = write(tmp_path, [first + int(v) for v in NARROW], kind)
    message = rf"{path.name}: column 'big(\[1\])?' holds numbers near {str(first)[:12]}\d+ that"
    with pytest.raises(DataError, match=message):
        run(path)


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(38, 0)])
def test_differences_below_one_step_are_no_constant(tmp_path, kind):
    values = [decimal.Decimal(2**62 + k % 3) for k in range(N)]
    path = parquet(tmp_path, [int(v) for v in values] if kind == pa.int64() else values, kind)
    with pytest.raises(DataError, match="column 'big' holds numbers near 4611686018427387"):
        run(path)


@pytest.mark.parametrize("write", [parquet, vectors, group, text])
def test_a_constant_is_one(tmp_path, write):
    report = run(write(tmp_path, [2**64 - 1] * N, pa.uint64()))
    assert any("constant columns" in warning for warning in report.warnings)
    assert len(report.clusters) == 2


def test_a_constant_beside_missing_values_is_one(tmp_path):
    values = np.where(np.arange(N) % 5, 2**62, -1).tolist()
    path = parquet(tmp_path, values, pa.int64())
    report = run(path, preprocess={"missing_values": [-1], "missing": "median"})
    assert any("constant columns" in warning for warning in report.warnings)


def test_the_advice_of_the_message_helps(tmp_path):
    path = parquet(tmp_path, [NEAR[1] + int(v) for v in NARROW], pa.uint64())
    with pytest.raises(DataError) as caught:
        run(path)
    origin = int(str(caught.value).split("store big - ")[1].split()[0])
    moved = [NEAR[1] + int(v) - origin for v in NARROW]
    assert min(moved) >= 0
    report = run(parquet(tmp_path, moved, pa.int64()))
    assert len(report.clusters) == 2
