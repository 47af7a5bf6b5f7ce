import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from distsvc.run.bench_linear import bench_linear, summary
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from distsvc.cli import main
from distsvc.errors import InputNotFoundError
from distsvc.models.dual_descent import SOLVERS


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.gamma(3.0, size=(400, 8)) * (rng.random((400, 8)) < 0.6))
    (tmp_path / "linear").mkdir()
    with open(tmp_path / "linear" / "toy_train.svm", "wb") as stream:
        dump_svmlight_file(X, np.ones(400), stream, zero_based=False)
    return tmp_path


def test_every_solver_gets_near_the_optimum(data):
    rows = bench_linear(data, data / "out", most_seconds=5.0, say=lambda line: None)
    assert [(row["set"], row["problem"], row["solver"]) for row in rows] == [
        ("toy", problem, solver) for problem in ("one-class SVM", "SVDD") for solver in SOLVERS
    ]
    assert all(row["cost"] > 0.0 and row["left"] < 1e-4 for row in rows)
    curves = pq.read_table(data / "out" / "linear_convergence.parquet").to_pylist()
    assert all(np.all(np.diff(curve["cost"]) >= 0.0) for curve in curves)
    assert all(np.all(np.diff(curve["distance"]) < 1e-12) for curve in curves)
    for name in ("linear_operations.png", "linear_seconds.png"):
        assert (data / "out" / name).read_bytes().startswith(b"\x89PNG")


def test_the_command(data):
    command = ["bench", "linear", "--data", str(data), "--out", str(data / "out"), "--set", "toy"]
    found = CliRunner().invoke(main, [*command, "--seconds", "2"])
    assert found.exit_code == 0, found.output
    assert found.stdout.count("within 0.0001") == 8
    assert found.stdout.endswith("linear_operations.png\n")


def test_a_folder_without_sets(tmp_path):
    with pytest.raises(InputNotFoundError, match=r"NAME_train\.svm"):
        bench_linear(tmp_path, tmp_path / "out")


def test_when_a_curve_passes_the_target():
    trace = {"set": "a", "problem": "b", "solver": "c", "seconds": [0.0, 1.0, 2.0]}
    found = summary(trace | {"cost": [0.0, 10.0, 20.0], "distance": [1.0, 1e-3, 1e-5]})
    assert found["cost"] == pytest.approx(15.0)
    assert found["seconds"] == pytest.approx(1.5)
    assert summary(trace | {"cost": [0.0] * 3, "distance": [1.0] * 3})["cost"] is None
