"""The tree of splits on the page, with the table's units and column names."""

from dataclasses import replace

import numpy as np
import pytest

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.model_parts import LeafNode, SplitNode
from distsvc.run.algorithms.hyperplanes import _combination, _in_units, tree_part
from distsvc.run.learning.preparation import Preparation
from distsvc.run.reporting.explaining import labelled_pilot
from tests.small_runs import fit, small_job, three_clusters, write_table

X = three_clusters(900, d=3)
SPREAD = (X + 12.0) * [1.0, 100.0, 0.01]
_RANDOM = np.random.default_rng(0)
DIRECTIONS = np.eye(3)[np.arange(900) % 3] + 0.1 * _RANDOM.normal(size=(900, 3))
DIRECTIONS *= _RANDOM.uniform(1.0, 9.0, size=(900, 1))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A run without scaling, its labelled rows, and its tree as the page draws it."""
    path = tmp_path_factory.mktemp("tree")
    table = write_table(path / "t.parquet", X)
    model = {"algorithm": "imdh", "depth": 4, "n_init": 2}
    run = fit(small_job(table, model, preprocess={"scale": "none"}), path / "run")
    rows = labelled_pilot(run.run, run.rule, run.survey.lowest)
    return run, rows, tree_part(run.algorithm.engine, ("x0", "x1", "x2"), rows.X, rows.labels)


def test_leaves_are_the_clusters(drawn):
    run, rows, part = drawn
    leaves = [node for node in part.nodes if isinstance(node, LeafNode)]
    assert sorted(node.label for node in leaves) == list(range(run.rule.n_clusters)) == [0, 1, 2]
    sizes = np.bincount(rows.labels)
    assert {node.label: node.rows for node in leaves} == dict(enumerate(sizes.tolist()))
    assert sum(node.share for node in leaves) == pytest.approx(1.0)


def test_splits_are_ranked_and_have_two_sides(drawn):
    _, _, part = drawn
    by_id = {node.id: node for node in part.nodes}
    splits = [node for node in part.nodes if isinstance(node, SplitNode)]
    assert sorted(node.rank for node in splits) == [1, 2]
    assert sum(node.gain for node in splits) == pytest.approx(
        part.curve.share[0] - part.curve.share[2], abs=1e-5
    )
    for node in splits:
        below, above = by_id[node.below], by_id[node.above]
        assert below.parent == above.parent == node.id
        assert below.rows + above.rows == node.rows
        assert 0.0 <= node.valley < 0.5
        x, labels = np.array(node.sample.x), np.array(node.sample.label)
        assert len(x) == min(PAGE_LIMITS.node_rows, node.rows)
        assert not set(labels[x < 0.0]) & set(labels[x >= 0.0])
        assert {below.label if isinstance(below, LeafNode) else None} <= {None, *labels[x < 0.0]}
        assert np.trapezoid(node.density.y, node.density.x) == pytest.approx(1.0, abs=0.05)
    assert part.nodes[0].parent is None


def holds(condition, raw):
    """Return a mask of the raw rows that meet a condition on the columns x0, x1, ..."""
    sign = next(sign for sign in "<≥>≤" if f" {sign} " in condition)
    left, right = condition.replace("−", "-").split(f" {sign} ")
    right, times, _ = right.partition(" × length")
    limit = float(right) * (np.linalg.norm(raw, axis=1) if times else 1.0)
    terms = left.replace("- ", "-").replace("+ ", "+").split()
    assert "…" not in left
    terms = ["1", *terms] if terms[0].startswith("x") else terms
    values = sum(
        float(weight) * raw[:, int(name[1:])]
        for weight, name in zip(terms[::2], terms[1::2], strict=True)
    )
    compare = {"<": np.less, "≥": np.greater_equal, ">": np.greater, "≤": np.less_equal}[sign]
    return compare(values, limit)


def test_conditions_hold_for_the_rows_of_their_cluster(drawn):
    """All three columns are named, so a condition can be evaluated on raw rows."""
    _, rows, part = drawn
    assert [rule.label for rule in part.rules] == [0, 1, 2]
    for rule in part.rules:
        inside = np.all([holds(one, rows.raw) for one in rule.conditions], axis=0)
        assert (inside == (rows.labels == rule.label)).mean() > 0.97  # weights have two digits
        assert rule.whole == []


@pytest.mark.parametrize("scale", ["none", "standard", "minmax", "robust", "unit"])
def test_whole_rules_hold_in_the_units_of_the_table(tmp_path, scale):
    table = write_table(tmp_path / "t.parquet", DIRECTIONS if scale == "unit" else SPREAD)
    model = {"algorithm": "imdh", "depth": 4, "n_init": 2, "n_clusters": 3}
    run = fit(small_job(table, model, preprocess={"scale": scale}), tmp_path / "run")
    rows = labelled_pilot(run.run, run.rule, run.survey.lowest)
    part = run.algorithm.parts(run.run, rows)["tree"]
    assert [rule.label for rule in part.rules] == list(range(run.rule.n_clusters))
    assert run.rule.n_clusters > 1
    for rule in part.rules:
        inside = np.all([holds(one, rows.raw) for one in rule.whole], axis=0)
        assert (inside == (rows.labels == rule.label)).mean() > 0.995


def test_whole_rules_of_many_columns_name_the_heaviest(drawn):
    run, _, _ = drawn
    preparation = Preparation.read(run.run)
    weights = np.zeros(PAGE_LIMITS.terms + 3)
    weights[:2], weights[2:] = (-2.0, 0.5), 0.001
    scaling = replace(
        preparation.scaling, centre=np.zeros(43), scale=np.full(43, 2.0), fill=np.zeros(43)
    )
    wide = replace(preparation, scaling=replace(scaling, kind="standard"), origin=np.zeros(43))
    told = _in_units(weights, 3.0, [f"x{k}" for k in range(43)], wide, "<")
    assert told.startswith("x0 − 0.25 x1 − 0.0005 x2")
    assert told.endswith("+ … (3 more) > −3")


def test_a_direction_of_many_columns_names_the_heaviest():
    weights, columns = np.array([0.8, -0.4, 0.1]), ("a", "b", "c")
    assert _combination(weights, np.array([0, 1]), columns) == "0.8 a − 0.4 b + …"
    assert _combination(weights[:2], np.array([1, 0]), columns) == "−0.4 b + 0.8 a"


def test_the_curve_names_the_chosen_number_and_the_reason(drawn, tmp_path):
    _, _, part = drawn
    assert part.curve.clusters == list(range(1, len(part.curve.share) + 1))
    assert part.curve.share[0] == 1.0
    assert (np.diff(part.curve.share) <= 0.0).all()
    assert (part.curve.chosen, part.curve.by) == (3, "elbow")
    model = {"algorithm": "imdh", "depth": 4, "n_init": 1, "n_clusters": 2}
    given = fit(small_job(write_table(tmp_path / "t.parquet", X), model), tmp_path / "run")
    rows = labelled_pilot(given.run, given.rule, given.survey.lowest)
    curve = tree_part(given.algorithm.engine, ("x0", "x1", "x2"), rows.X, rows.labels).curve
    assert (curve.chosen, curve.by) == (2, "n_clusters")


def test_one_cluster_is_a_leaf(tmp_path):
    table = write_table(tmp_path / "t.parquet", np.random.default_rng(0).normal(size=(400, 2)))
    run = fit(small_job(table, {"algorithm": "imdh", "depth": 3, "n_init": 1}), tmp_path / "run")
    rows = labelled_pilot(run.run, run.rule, run.survey.lowest)
    part = tree_part(run.algorithm.engine, ("x0", "x1"), rows.X, rows.labels)
    assert run.rule.n_clusters == 1
    assert [type(node) for node in part.nodes] == [LeafNode]
    assert [rule.conditions for rule in part.rules] == [[]]
    assert part.curve.by == "the lack of a density valley"
