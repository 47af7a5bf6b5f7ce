"""Passes over a table: alpha on disk equals the driver's, and no file is written twice."""

import os
from pathlib import Path

import numpy as np
import pytest

from distsvc import LinearOneClassSVM, LinearSVDD
from distsvc.models.linear import working_set
from distsvc.models.linear.engine import LinearEngine
from distsvc.run.algorithms import linear
from distsvc.run.learning.preparation import Preparation
from distsvc.run.learning.survey import survey_table
from distsvc.run.preparing import prepare
from distsvc.run.work.phases import Steps
from tests.small_runs import begin, digests, forget, small_job, write_table

N, D = 3000, 4
NU = 0.0501  # NU * N is no whole number, so some alpha is free and the threshold is unique
MODELS = {
    "plane": {"algorithm": "linear-one-class", "nu": NU, "tol": 1e-8, "memory_rows": 1000},
    "ball": {"algorithm": "linear-svdd", "nu": NU, "tol": 1e-8, "memory_rows": 1000},
}
BOTH = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    random = np.random.default_rng(0)
    X = random.gamma(4.0, size=(N, D)) * [1.0, 2.0, 0.5, 1.0] + 1.0
    X[:30] *= random.choice([0.05, 4.0], size=(30, 1))
    return write_table(tmp_path_factory.mktemp("data") / "t.parquet", X), X


@pytest.fixture
def ends(monkeypatch):
    """Make working sets small, so that several passes are needed; collect each run's last one."""
    allow(monkeypatch, 5)
    found, end = [], LinearEngine.end_outer

    def kept(self, outer, n_passes):
        found.append(outer)
        end(self, outer, n_passes)

    monkeypatch.setattr(LinearEngine, "end_outer", kept)
    return found


def allow(monkeypatch, n_candidates):
    for module in (working_set, linear):
        monkeypatch.setattr(module, "working_rows", lambda d: n_candidates)


def fitted(table, model, folder):
    job = small_job(table[0], model, preprocess={"scale": "none"}, cluster={"partition_rows": 700})
    run = begin(job, folder)
    survey = survey_table(run.steps, run.algorithm.engine.key_ranges)
    prepare(run.steps, job.preprocess, run.algorithm, survey)
    return run, run.algorithm.fit(run.steps, survey)


def alpha_of(run, step):
    """Return alpha (N,) of all partitions after a descent and all earlier ones."""
    return np.concatenate([linear._alpha(run, k, step) for k in range(len(run.plan.partitions))])


def passes(run, kind):
    """Return the numbers of the passes of a kind, which have no gaps."""
    names = {path.name for path in (Path(run.address) / "results").iterdir()}
    n = sum(name.startswith(f"{kind}-") for name in names)
    assert {f"{kind}-{number:02d}" for number in range(n)} <= names
    return range(n)


@BOTH
def test_the_answer_is_that_of_all_rows_in_memory(table, ends, tmp_path, name):
    run, rule = fitted(table, MODELS[name], tmp_path / "run")
    make = LinearSVDD if name == "ball" else LinearOneClassSVM
    peer = make(nu=NU, tol=1e-8).fit(table[1])
    facts = run.algorithm.engine.fitted_facts()
    assert facts["objective"] == pytest.approx(peer.objective_, rel=1e-8)
    scores = rule.unrounded_scores(Preparation.read(run.run)(table[1]))
    np.testing.assert_allclose(scores, peer.decision_function(table[1]), rtol=1e-4, atol=1e-4)
    n_passes = len(passes(run.run, "begin")), len(passes(run.run, "pass"))
    assert facts["n_passes"] == sum(n_passes)
    assert min(n_passes) > 2


@BOTH
def test_alpha_on_disk_is_the_drivers(table, ends, tmp_path, name):
    run = fitted(table, MODELS[name], tmp_path / "run")[0].run
    [outer] = ends
    alpha = alpha_of(run, passes(run, "pass")[-1])
    np.testing.assert_array_equal(alpha[outer.rows], outer.alpha)
    assert ((alpha >= 0.0) & (alpha <= 1.0)).all()
    assert set(alpha[np.setdiff1d(np.arange(N), outer.rows)]) <= {0.0, 1.0}
    assert alpha.sum() == pytest.approx(outer.total, rel=1e-12)
    Z = Preparation.read(run)(table[1])
    np.testing.assert_allclose(Z.T @ alpha, outer.u, rtol=1e-9, atol=1e-9)
    for step in passes(run, "pass"):  # with the alpha of the pass after the descent
        u = run.read(f"descent-{step:02d}").arrays["u"]
        np.testing.assert_allclose(Z.T @ alpha_of(run, step), u, rtol=1e-9, atol=1e-9)


@BOTH
def test_no_file_is_written_twice(table, ends, tmp_path, name, monkeypatch):
    seen, do = {}, Steps.map

    def look(folder):
        now = {}
        for file, digest in digests(folder).items():
            status = os.stat(folder / file)
            now[file] = digest, status.st_ino, status.st_mtime_ns
        assert all(now.get(file) == state for file, state in seen.items())
        fresh = len(now.keys() - seen.keys())
        seen.update(now)
        return fresh

    def watched(self, phase, n=None):
        look(Path(self.run.address))
        yield from do(self, phase, n)
        assert look(Path(self.run.address)) >= self.n_partitions

    monkeypatch.setattr(Steps, "map", watched)
    run, _ = fitted(table, MODELS[name], tmp_path / "run")
    look(Path(run.run.address))
    for step in passes(run.run, "pass"):
        assert f"results/descent-{step:02d}.npz" in seen
        assert f"results/pass-{step:02d}/00004.npz" in seen


@BOTH
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_bad_threshold_takes_several_passes_to_begin(
    table, ends, tmp_path, name, factor, monkeypatch
):
    allow(monkeypatch, 60)
    model, begin_outer = MODELS[name] | {"nu": 0.3}, LinearEngine.begin_outer
    expected = fitted(table, model, tmp_path / "run")[0].algorithm.engine.fitted_facts()

    def far_off(self, n_rows):
        u, rho, scale = begin_outer(self, n_rows)
        return u, factor * rho, scale

    monkeypatch.setattr(LinearEngine, "begin_outer", far_off)
    begun, _ = fitted(table, model, tmp_path / "far off")
    run, found = begun.run, begun.algorithm.engine.fitted_facts()
    last = passes(run, "begin")[-1]
    assert last > 0
    assert run.read("descent-00").facts["begun"] == last
    assert found["n_passes"] == len(passes(run, "begin")) + len(passes(run, "pass"))
    assert found["n_passes"] > expected["n_passes"]
    assert found["objective"] == pytest.approx(expected["objective"], rel=1e-7)
    alpha = alpha_of(run, passes(run, "pass")[-1])
    np.testing.assert_allclose(
        Preparation.read(run)(table[1]).T @ alpha, ends[1].u, rtol=1e-9, atol=1e-9
    )


def test_passes_end_at_their_maximum_number(table, ends, tmp_path, monkeypatch):
    allow(monkeypatch, 20)
    monkeypatch.setattr(linear, "MOST_PASSES", 2)
    run, _ = fitted(table, MODELS["ball"], tmp_path / "run")
    assert run.algorithm.engine.fitted_facts()["n_passes"] == 4
    assert not run.algorithm.engine.solution.converged
    assert run.algorithm.engine.notes[-1].startswith("training ended before it converged")


@pytest.mark.parametrize("lost", ["descent-01", "threshold-02", "begin-02/00001"])
def test_lost_results_are_computed_again(table, ends, tmp_path, lost):
    """Every later pass needs all descents before it."""
    _, rule = fitted(table, MODELS["ball"], tmp_path / "run")
    whole = digests(tmp_path / "run/results")
    results = tmp_path / "run/results"
    last = sorted(results.glob("pass-*"))[-1]
    [passed] = [path for path in last.iterdir() if path.stem == "00000"]
    passed.unlink()
    for path in [results / f"{lost}.npz", *(results / lost).glob("*.npz")]:
        path.unlink(missing_ok=True)
    forget()
    _, other = fitted(table, MODELS["ball"], tmp_path / "run")
    assert digests(results).keys() >= whole.keys() - {f"{lost}.npz"}
    for name, array in rule.arrays().items():
        assert other.arrays()[name].tobytes() == array.tobytes()
