"""Columns without variation, or with that of rounding alone, decide no cluster of a job."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distsvc

pytestmark = pytest.mark.usefixtures("quick_page")

N = 600
COLUMNS = {
    "constant": lambda r: np.full(N, 7.5),
    "constant but for rounding": lambda r: 0.1 + r.integers(0, 2, N) * 2.0**-55,
    "sums in two orders": lambda r: np.where(r.random(N) < 0.5, (0.1 + 0.2) + 0.3, 0.1 + 0.5),
    "large, with rounding": lambda r: 1e9 + r.integers(0, 2, N) * 1.2e-7,
}


def clusters(columns, algorithm, folder):
    path = folder / f"{algorithm}-{len(columns)}.parquet"
    pq.write_table(pa.table(columns), path)
    run = distsvc.run(
        {
            "input": {"path": str(path)},
            "output": {"path": str(path.with_suffix(""))},
            "model": {"algorithm": algorithm},
            "cluster": {"workers": 0},
        }
    )
    return run.labels().column("label").to_numpy()


@pytest.mark.parametrize("algorithm", ["auto", "support-vector"])
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_column_without_variation_decides_nothing(tmp_path, algorithm, column):
    random = np.random.default_rng(3)
    groups = random.integers(0, 2, N)
    X = {"x": groups * 9.0 + random.normal(size=N), "y": random.normal(size=N)}
    alone = clusters(X, algorithm, tmp_path)
    beside = clusters(X | {"c": column(random)}, algorithm, tmp_path)
    assert len(set(alone.tolist())) == 2
    assert {frozenset(np.flatnonzero(beside == one)) for one in set(beside.tolist())} == {
        frozenset(np.flatnonzero(alone == one)) for one in set(alone.tolist())
    }
