"""The page's parts on a vote of level trees and on the domain of novelty."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from distsvc.models.support_vector.level_tree.proposals import Rival
from distsvc.report.content.limits import PAGE_LIMITS, PageLimits
from distsvc.run.algorithms import level_tree
from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.algorithms.level_tree import levels_part
from distsvc.run.reporting.explaining import labelled_pilot
from tests.small_runs import FORMS, MODELS, fit, small_job, three_clusters, write_table


def run_of(path, model, d=2):
    table = write_table(path / "t.parquet", three_clusters(600, d) * [100.0, 0.01, 1.0][:d])
    return fit(small_job(table, model), path / "run")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("levels"), MODELS["level tree"])


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory):
    """The level sets of rows without clusters, whose splits are chance."""
    folder = tmp_path_factory.mktemp("one")
    table = write_table(folder / "t.parquet", np.random.default_rng(0).normal(size=(900, 2)))
    found = fit(small_job(table, MODELS["level tree"]), folder / "run").algorithm.engine.levels
    assert found.answer.n_clusters == 1
    return found


@pytest.fixture(scope="module")
def part(run):
    return levels_part(run.algorithm.engine.levels)


def test_branches_have_the_numbers_of_the_clusters(run, part):
    """A graph's rule numbers clusters by other rows; -1 marks a cluster without rows."""
    k = run.algorithm.engine.levels.answer.n_clusters
    numbers = np.arange(k - 2, -2, -1)
    other = levels_part(run.algorithm.engine.levels, numbers)
    for one, now in zip(part.tree.branches, other.tree.branches, strict=True):
        if one.label is None or numbers[one.label] < 0:
            assert (now.label, now.kept) == (None, False)
        else:
            assert (now.label, now.kept) == (numbers[one.label], True)
    assert sum(one.kept for one in other.tree.branches) == k - 1


def test_branches_are_those_of_the_chosen_model(run, part):
    tree, answer = run.algorithm.engine.levels.tree, run.algorithm.engine.levels.answer
    listed = {branch.id: branch for branch in part.tree.branches}
    assert part.tree.n_hidden == tree.n_branches - len(listed)
    root = part.tree.branches[0]
    assert (root.parent, root.z, root.mass, root.death) == (None, None, 1.0, 0.0)
    top = max(tree.heights.max(), tree.births.max())
    for branch in part.tree.branches[1:]:
        assert branch.parent == tree.parents[branch.id]
        assert branch.birth == pytest.approx(tree.births[branch.id] / top)
        assert branch.death == pytest.approx(tree.deaths[branch.id] / top)
        assert branch.mass == tree.masses[branch.id]
        assert branch.z == tree.z[branch.id]
    assert {b.id for b in listed.values() if b.kept} == set(np.flatnonzero(answer.kept).tolist())
    assert sorted(b.label for b in listed.values() if b.kept) == [0, 1, 2]


def test_a_profile_falls_from_birth_to_death_and_rises_to_the_mass(part):
    for branch in part.tree.branches:
        levels, shares = np.array(branch.profile).reshape(-1, 2).T
        assert (np.diff(levels) <= 0.0).all()
        assert (np.diff(shares) > 0.0).all()
        if branch.kept:
            assert branch.death <= levels[-1] <= levels[0] <= branch.birth * (1.0 + 1e-5)
            assert shares[-1] == pytest.approx(branch.mass, abs=0.05)
    assert part.tree.branches[0].profile[-1][1] == 1.0


def test_kept_and_most_significant_branches_are_listed(one_cluster, monkeypatch):
    tree = one_cluster.tree
    assert tree.n_branches > 4
    monkeypatch.setattr(level_tree, "PAGE_LIMITS", PageLimits(branches=3))
    part = levels_part(one_cluster).tree
    assert part.n_hidden == tree.n_branches - 3
    listed = [branch.id for branch in part.branches]
    assert listed[0] == np.flatnonzero(tree.parents < 0)[0]
    assert set(listed) == set(np.argsort(-tree.z)[:3].tolist())
    assert [branch.kept for branch in part.branches] == [True, False, False]
    assert all(branch.parent in listed for branch in part.branches[1:])


def test_every_model_is_listed(run, part):
    ensemble, answer = run.algorithm.engine.ensemble, run.algorithm.engine.levels.answer
    assert [model.gamma for model in part.models] == [m.gamma for m in ensemble.members]
    assert [model.chosen for model in part.models].index(True) == answer.member
    assert [model.supports for model in part.models] == list(map(bool, answer.supporters))
    trees = run.algorithm.engine.levels.trees
    assert [model.n_splits for model in part.models] == [tree.n_branches - 1 for tree in trees]
    assert [model.n_support_vectors for model in part.models] == [len(tree.a) for tree in trees]


def test_reasons_for_several_clusters(part):
    assert part.why[0].startswith("3 models were trained that differ in the width of the kernel")
    assert "of the models find these clusters" in part.why[1]
    assert part.why[2].startswith("The weakest split is ")
    assert [row.name for row in part.granularity] == ["coarse", "default", "fine"]
    assert [row.rows for row in part.granularity] == [600, 600, 600]
    assert [row.chosen for row in part.granularity] == [False, True, False]


def test_reasons_for_one_cluster(one_cluster):
    told = levels_part(one_cluster)
    assert told.why[-2] == "No model has a clear split: the answer is one cluster."
    chance = f"{100 * one_cluster.answer.agreement:.0f} of 100 cases."
    assert told.why[-1] == f"A different sample would give the same clusters in about {chance}"
    assert [branch.kept for branch in told.tree.branches].count(True) == 1


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.79, ""),
        (0.81, "81 % as high as this answer."),
        (1.4, "40 % higher; last night's clusters were kept."),
    ],
)
def test_a_nearly_as_good_or_better_answer_is_named(share, words, run):
    found = run.algorithm.engine.levels
    answer = replace(found.answer, rival=Rival(7, share))
    shown = SimpleNamespace(answer=answer, n_clusters=None)
    told = level_tree._chance(shown)
    assert told[1:] == ([f"Another answer, of 7 clusters, scored {words}"] if words else [])
    shown.n_clusters = 3
    assert level_tree._chance(shown) == told[1:]


def test_bottlenecks_by_hand():
    """A path 0 - 1 - 2 with a branch 1 - 3: a path is as high as its lowest edge."""
    tree = SimpleNamespace(
        heights=np.zeros(4),
        edges=np.array([[0, 1], [2, 1], [3, 1]]),
        edge_heights=np.array([0.5, 0.9, 0.25]),
    )
    assert level_tree._bottlenecks(tree, 0).tolist() == [np.inf, 0.5, 0.5, 0.25]
    assert level_tree._bottlenecks(tree, 2).tolist() == [0.5, 0.9, np.inf, 0.25]


def test_a_profile_by_hand():
    assert level_tree._profile(np.array([0.25, 1.0, 0.5]), 4) == [
        [1.0, 0.25],
        [0.5, 0.5],
        [0.25, 0.75],
    ]
    assert level_tree._profile(np.zeros(0), 4) == []
    long = level_tree._profile(np.linspace(1.0, 2.0, 1000), 1000)
    assert len(long) == PAGE_LIMITS.profile_points
    assert (long[0], long[-1]) == ([2.0, 0.001], [1.0, 1.0])


def parts_of(run) -> dict:
    rows: PilotRows = labelled_pilot(run.run, run.rule, run.survey.lowest)
    return run.algorithm.learned().parts(run.run, rows), rows


@pytest.mark.parametrize("algorithm", ["level tree", "boundary"])
def test_the_domain_is_drawn_in_the_units_of_the_table(algorithm, tmp_path):
    run = run_of(tmp_path, MODELS[algorithm])
    parts, rows = parts_of(run)
    assert ("levels" in parts) == (algorithm == "level tree")
    domain, sample = parts["picture"], rows.sample
    x, y, f = (np.array(values) for values in (domain.grid_x, domain.grid_y, domain.f))
    n = PAGE_LIMITS.grid_points
    assert (len(x), len(y), f.shape) == (n, n, (n, n))
    assert x[0] < min(sample.x) < max(sample.x) < x[-1]
    assert y[0] < min(sample.y) < max(sample.y) < y[-1]
    nearest = f[
        np.abs(y[:, None] - rows.raw[:, 1]).argmin(axis=0),
        np.abs(x[:, None] - rows.raw[:, 0]).argmin(axis=0),
    ]
    assert np.corrcoef(nearest, rows.scores)[0, 1] > 0.97
    for points in (domain.support_vectors, domain.equilibria):
        places = np.array(points)
        assert (places > [x[0], y[0]]).all()
        assert (places < [x[-1], y[-1]]).all()


def test_tables_of_three_columns_have_no_domain(tmp_path):
    assert parts_of(run_of(tmp_path, FORMS["support-vector"], d=3))[0]["picture"] is None
