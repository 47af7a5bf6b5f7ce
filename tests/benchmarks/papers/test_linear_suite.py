from typing import get_args

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from benchmarks.cli import commands
from benchmarks.papers.figures import Trace
from benchmarks.papers.linear import run_linear, summary
from benchmarks.papers.suites import SuiteOptions
from distsvc.errors import InputNotFoundError
from distsvc.job.parameters import LinearSolver


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.gamma(3.0, size=(400, 8)) * (rng.random((400, 8)) < 0.6))
    (tmp_path / "linear").mkdir()
    with open(tmp_path / "linear" / "toy_train.svm", "wb") as stream:
        dump_svmlight_file(X, np.ones(400), stream, zero_based=False)
    return tmp_path


def test_every_solver_gets_near_the_optimum(data):
    path = run_linear(data / "out", data, SuiteOptions(), lambda line: None, most_seconds=5.0)
    curves = pq.read_table(path).to_pylist()
    rows = [summary(Trace(*(curve[name] for name in Trace._fields))) for curve in curves]
    assert [row[:3] for row in rows] == [
        ("toy", f"{problem}, nu = {nu}", solver)
        for nu in (0.1, 0.01, 0.5)
        for problem in ("one-class SVM", "SVDD")
        for solver in get_args(LinearSolver)
    ]
    assert all(row.cost > 0.0 and row.left < 1e-4 for row in rows)
    assert all(np.all(np.diff(curve["cost"]) >= 0.0) for curve in curves)
    assert all(np.all(np.diff(curve["distance"]) < 1e-12) for curve in curves)
    assert {(curve["n"], curve["d"]) for curve in curves} == {(400, 8)}


def test_the_command(data):
    out = str(data / "out")
    command = ["papers", "run", "linear", "--data", str(data), "--out", out, "--set", "toy"]
    found = CliRunner().invoke(commands, [*command, "--quick"])
    assert found.exit_code == 0, found.output
    assert found.stdout == f"{out}/linear.parquet\n"
    found = CliRunner().invoke(commands, ["papers", "report", out])
    assert found.stdout == f"{out}/linear.md\n{out}/report.html\n"
    page = (data / "out" / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "toy, SVDD" in page


def test_a_folder_without_sets(tmp_path):
    with pytest.raises(InputNotFoundError, match=r"NAME_train\.svm"):
        run_linear(tmp_path / "out", tmp_path, SuiteOptions())


def test_when_a_curve_passes_the_target():
    trace = Trace("a", "b", "c", [0.0, 10.0, 20.0], [0.0, 1.0, 2.0], [1.0, 1e-3, 1e-5])
    found = summary(trace)
    assert found.cost == pytest.approx(15.0)
    assert found.seconds == pytest.approx(1.5)
    assert summary(trace._replace(distance=[1.0] * 3)).cost is None
