"""What is published is the same, byte by byte, however the work is cut."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import distsvc
from tests.small_runs import MODELS, three_clusters

pytestmark = pytest.mark.usefixtures("quick_page")

N = 300
CUTS = [(1000, 10_000), (37, 90), (64, 150)]
"""Rows of a block and of a partition."""


def table() -> pa.Table:
    random = np.random.default_rng(5)
    X = three_clusters(N, 3)
    heavy = np.exp(X[:, 1])
    heavy[3] = 1e9
    return pa.table(
        {
            "x": X[:, 0],
            "bytes": heavy,
            "took": pa.array((X[:, 2] * 1000).astype("m8[s]")),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(X.astype(np.float32).ravel()), 3),
            "flag": pa.array(random.random(N) < 0.3),
            "country": pa.array(np.array(["DE", "FR", "IT", "rare"])[[*range(4)] * (N // 4)]),
            "city": pa.array((random.pareto(1.0, N) * 3).astype(int) % 40).cast(pa.string()),
            "gap": pa.array(X[:, 1], mask=random.random(N) < 0.1),
        }
    )


def files(folder):
    inner = folder / "t"
    inner.mkdir()
    pq.write_table(table().slice(0, 150), inner / "a.parquet", row_group_size=41)
    pq.write_table(table().slice(150), inner / "b.parquet", row_group_size=100)
    return inner


def delta(folder):
    path = str(folder / "t")
    for start in range(0, N, 100):
        write_deltalake(path, table().drop_columns("took").slice(start, 100), mode="append")
    DeltaTable(path).delete("x < 8.5")
    return f"delta://{path}"


COUNTRY, CITY = {"country": "onehot"}, {"city": "frequency"}
JOBS = {
    "robust": (files, {"scale": "robust", "log": ["bytes"], "encode": CITY}, MODELS["level tree"]),
    "unit": (files, {"scale": "unit"}, MODELS["hyperplanes"]),
    "standard": (files, {"encode": COUNTRY | CITY}, MODELS["boundary"]),
    "none": (files, {"scale": "none"}, MODELS["sampled"]),
    "delta": (delta, {"scale": "robust", "encode": COUNTRY}, MODELS["hyperplanes"]),
}


@pytest.mark.parametrize("name", JOBS)
def test_blocks_and_partitions_do_not_matter(name, tmp_path):
    write, preprocess, model = JOBS[name]
    path, found = str(write(tmp_path)), []
    for number, (block_rows, partition_rows) in enumerate(CUTS):
        run = distsvc.run(
            {
                "input": {"path": path},
                "preprocess": {"missing": "median"} | preprocess,
                "model": model,
                "cluster": {
                    "workers": 0, "block_rows": block_rows, "partition_rows": partition_rows
                },
                "output": {"path": tmp_path / f"out{number}", "membership": True, "reasons": 2},
            },
            progress=False,
        )  # fmt: skip
        found.append(run.labels().combine_chunks())
    assert found[0].num_rows == (N if write is files else DeltaTable(tmp_path / "t").count())
    assert all(one.equals(other) for one, other in itertools.pairwise(found))
