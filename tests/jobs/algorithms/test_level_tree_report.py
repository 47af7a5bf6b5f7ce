"""What a report tells of level trees, of tables small and degenerate too."""

import json

import numpy as np
import pytest

from distsvc.report.page import render_page
from tests.jobs.level_tree_jobs import run
from tests.published_files import read_labels
from tests.small_runs import write_table

pytestmark = pytest.mark.usefixtures("quick_page")


# Small and degenerate tables


@pytest.mark.parametrize("d", [2, 6])
def test_one_cluster(tmp_path, d):
    X = np.random.default_rng(0).normal(size=(600, d))
    report = run(write_table(tmp_path / "in.parquet", X), tmp_path / "out", {"max_iter": 1500})
    check_levels(report)
    assert len(report.clusters) == 1
    assert report.warnings == ["no split is significant: the answer is one cluster"]
    assert set(read_labels(tmp_path / "out")["label"].to_pylist()) == {0}
    assert "Why 1 cluster<" in render_page(report)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_rows_that_are_all_equal(tmp_path, d):
    report = run(write_table(tmp_path / "in.parquet", np.full((120, d), 3.0)), tmp_path / "out")
    check_levels(report)
    assert len(report.clusters) == 1
    assert any("all rows looked at are equal" in note for note in report.warnings)
    assert report.outliers.rows == 0
    assert report.model.fitted["n_branches"] == 1
    assert "Why 1 cluster<" in render_page(report)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("n", [2, 3, 9])
def test_a_table_of_few_rows(tmp_path, n, d):
    X = np.random.default_rng(n).normal(size=(n, d))
    report = run(write_table(tmp_path / "in.parquet", X), tmp_path / "out", {"max_iter": 200})
    check_levels(report)
    assert report.input.n_rows == n
    assert read_labels(tmp_path / "out").num_rows == n
    assert np.isfinite(read_labels(tmp_path / "out")["score"].to_numpy()).all()


# What the report tells


def check_levels(report):
    """Check what the page's figure and its text take for granted."""
    json.dumps(report.dumped(), allow_nan=False)
    levels, facts = report.levels, report.model.fitted
    tree, k = levels.tree, len(report.clusters)
    branches = tree.branches
    by_id = {branch.id: branch for branch in branches}
    assert len(by_id) == len(branches)
    assert len(branches) + tree.n_hidden == facts["n_branches"]
    root, *others = branches
    assert root.parent is None
    assert root.z is None
    assert (root.kept, root.mass, root.death) == (True, 1.0, 0.0)
    for branch in others:
        parent = by_id[branch.parent]
        assert branch.z is not None
        assert parent.death <= branch.death <= parent.birth <= tree.top
        assert branch.mass < parent.mass <= 1.0
        assert branch.mass > 0.0
    for branch in branches:
        assert 0.0 <= branch.death <= branch.birth <= tree.top
        check_profile(branch)
        assert branch.kept == (branch.label is not None)
    kept = [branch for branch in branches if branch.kept]
    assert sorted(branch.label for branch in kept) == list(range(k))
    assert all(branch.birth > branch.death for branch in kept)
    least = min([branch.z for branch in kept if branch is not root], default=0.0)
    assert all(branch.z <= least for branch in others if not branch.kept) or k == 1
    assert len(levels.models) == facts["n_models"]
    assert sum(model.chosen for model in levels.models) == 1
    chosen = next(model for model in levels.models if model.chosen)
    assert chosen.gamma == facts["gamma"]
    assert chosen.n_splits == facts["n_branches"] - 1
    assert np.mean([m.supports for m in levels.models]) == pytest.approx(facts["support"])
    winners = [row.n_clusters for row in levels.candidates if row.winner]
    assert winners == ([k] if k > 1 else [])
    assert [row.name for row in levels.granularity] == ["coarse", "default", "fine"]
    assert [row.n_clusters for row in levels.granularity if row.chosen] == [k]


def check_profile(branch):
    """Check that shares rise from the birth down to the death, where they are the mass at most."""
    levels, shares = np.array(branch.profile).reshape(-1, 2).T
    assert (np.diff(levels) <= 0.0).all()
    assert (np.diff(shares) > 0.0).all()
    if levels.size:
        assert levels[0] <= branch.birth * (1 + 1e-5)
        assert levels[-1] >= branch.death * (1 - 1e-5)
        assert shares[-1] <= branch.mass + 1e-6
