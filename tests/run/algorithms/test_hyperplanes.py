"""The tree of splits that the page draws, in the units and by the names of the table."""

import numpy as np
import pytest

from distsvc.report.content.model_parts import LeafNode, SplitNode
from distsvc.run.algorithms.hyperplanes import SHOWN_IN_NODE, tree_part
from distsvc.run.reporting.pictures import labelled_pilot
from tests.small_runs import fit, small_job, three_clusters, write_table

X = three_clusters(900, d=3)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A run without scaling, its labelled rows, and its tree as the page draws it."""
    path = tmp_path_factory.mktemp("tree")
    table = write_table(path / "t.parquet", X)
    model = {"algorithm": "imdh", "depth": 4, "n_init": 2}
    run = fit(small_job(table, model, preprocess={"scale": "none"}), path / "run")
    rows = labelled_pilot(run.run, run.rule, run.survey.lowest)
    return run, rows, tree_part(run.algorithm.engine, ("x0", "x1", "x2"), rows)


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
        assert len(x) == min(SHOWN_IN_NODE, node.rows)
        assert not set(labels[x < 0.0]) & set(labels[x >= 0.0])
        assert {below.label if isinstance(below, LeafNode) else None} <= {None, *labels[x < 0.0]}
        assert np.trapezoid(node.density.y, node.density.x) == pytest.approx(1.0, abs=0.05)
    assert part.nodes[0].parent is None


def test_conditions_hold_for_the_rows_of_their_cluster(drawn):
    """All three columns are named, so a condition can be evaluated on raw rows."""
    _, rows, part = drawn
    assert [rule.label for rule in part.rules] == [0, 1, 2]
    for rule in part.rules:
        inside = np.ones(len(rows.raw), bool)
        for condition in rule.conditions:
            left, sign, right = condition.replace("−", "-").rpartition(
                " < " if " < " in condition else " ≥ "
            )
            terms = left.replace("- ", "-").replace("+ ", "+").split()
            assert "…" not in left
            values = sum(
                float(weight) * rows.raw[:, int(name[1:])]
                for weight, name in zip(terms[::2], terms[1::2], strict=True)
            )
            inside &= values < float(right) if sign == " < " else values >= float(right)
        agreement = (inside == (rows.labels == rule.label)).mean()
        assert agreement > 0.97  # weights have two digits


def test_the_curve_tells_what_was_chosen_and_how(drawn, tmp_path):
    _, _, part = drawn
    assert part.curve.clusters == list(range(1, len(part.curve.share) + 1))
    assert part.curve.share[0] == 1.0
    assert (np.diff(part.curve.share) <= 0.0).all()
    assert (part.curve.chosen, part.curve.by) == (3, "elbow")
    model = {"algorithm": "imdh", "depth": 4, "n_init": 1, "n_clusters": 2}
    given = fit(small_job(write_table(tmp_path / "t.parquet", X), model), tmp_path / "run")
    rows = labelled_pilot(given.run, given.rule, given.survey.lowest)
    curve = tree_part(given.algorithm.engine, ("x0", "x1", "x2"), rows).curve
    assert (curve.chosen, curve.by) == (2, "n_clusters")


def test_one_cluster_is_a_leaf(tmp_path):
    table = write_table(tmp_path / "t.parquet", np.random.default_rng(0).normal(size=(400, 2)))
    run = fit(small_job(table, {"algorithm": "imdh", "depth": 3, "n_init": 1}), tmp_path / "run")
    rows = labelled_pilot(run.run, run.rule, run.survey.lowest)
    part = tree_part(run.algorithm.engine, ("x0", "x1"), rows)
    assert run.rule.n_clusters == 1
    assert [type(node) for node in part.nodes] == [LeafNode]
    assert [rule.conditions for rule in part.rules] == [[]]
    assert part.curve.by == "for want of a valley of the density"
