"""The previous run's answer for tonight's rows."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc import AutoClustering
from distsvc.models.automatic.modelled_views import ModelledViews, drop_small
from distsvc.models.automatic.previous import PreviousAnswer
from distsvc.models.columns.model import ColumnModel
from distsvc.models.rows.sampling import lowest, row_keys

N = 1200


def table(seed):
    random = np.random.default_rng(seed)
    y = random.integers(3, size=N)
    amounts = np.round(np.exp(y[:, None] + 0.3 * random.normal(size=(N, 4))), 1)
    return amounts, y


def answer():
    X, _ = table(1)
    engine = AutoClustering(effort="fast", random_state=0).fit(X)._engine
    mixtures = [each for each in engine.answer.decision.proposals if each.view == "mixture"]
    labels = np.zeros(N, np.int32)
    return PreviousAnswer(labels, mixtures[0].make(), engine.origin, engine.columns)


def test_a_mixture_of_the_same_columns_gives_its_posteriors_in_draws():
    previous, (X, y) = answer(), table(2)
    columns = ColumnModel.of(X, np.zeros(4, bool), before=previous.columns)
    rows = columns.layout.mixed(columns.prepared(X, np.arange(N)))
    start = previous.start(rows, columns)
    assert len(start.cluster) == start.mixture.n_components == 3
    assert adjusted_rand_score(start.posterior.argmax(axis=1), y) > 0.95


def test_each_label_is_a_component_if_the_columns_are_others():
    previous, (X, _) = answer(), table(2)
    wide = np.hstack([X, X[:, :1] ** 2 + X[:, 1:2]])
    columns = ColumnModel.of(wide, np.zeros(5, bool))
    rows = columns.layout.mixed(columns.prepared(wide, np.arange(N)))
    start = previous.start(rows, columns)
    assert (start.posterior == 1.0).all()
    assert start.cluster.tolist() == [0]
    assert start.mixture is None


def test_labels_of_a_graph_go_on_to_the_landmarks_of_a_graph():
    X, y = table(1)
    engine = AutoClustering(effort="fast", random_state=0).fit(X)._engine
    order = lowest(row_keys(engine.column_trees.seed, np.arange(N)), N)
    graph = next(each for each in engine.answer.decision.proposals if each.view == "graph")
    labels = np.minimum(y, 1)[order]  # two of the classes were one cluster
    previous = PreviousAnswer(labels, graph.make(), engine.origin, engine.columns)
    views = ModelledViews(
        engine.modelled, engine.pilot, engine.origin, engine.graph, engine.nu, previous
    )
    found = views.choose(None).decision
    continued = [each for each in found.proposals if adjusted_rand_score(each.labels, labels) == 1]
    assert [each.view for each in continued] == ["graph"]
    assert continued[0].levels is None
    Z = (engine.columns.prepared(X) - engine.origin).astype(np.float32)
    assert adjusted_rand_score(continued[0].make().labels(Z)[order], labels) > 0.95
    assert not found.followed  # three clusters are clearly better


@pytest.mark.parametrize("same", [True, False])
def test_landmarks_go_on_as_long_as_all_columns_keep_their_models(same):
    X, _ = table(1)
    engine = AutoClustering(effort="fast", random_state=0).fit(X)._engine
    order = lowest(row_keys(engine.column_trees.seed, np.arange(N)), N)
    graph = next(each for each in engine.answer.decision.proposals if each.view == "graph")
    rule, latent = graph.make(), engine.columns.layout.latent
    Z = (engine.columns.prepared(X) - engine.origin).astype(np.float32)
    labels = rule.labels(Z)[order]
    origin = engine.origin + 0.5
    columns = engine.columns if same else ColumnModel.of(X[: N // 2], np.zeros(4, bool))
    previous = PreviousAnswer(labels, rule, origin, columns, latent)
    views = ModelledViews(
        engine.modelled, engine.pilot, engine.origin, engine.graph, engine.nu, previous
    )
    found = [each for each in views._graph_proposals(None) if each.levels is None]
    continued_rule = found[0].make()
    assert np.allclose(continued_rule.landmarks, rule.landmarks + 0.5) == same
    shift = np.float32(0.5) if same else np.float32(0.0)
    assert (continued_rule.labels(Z + shift)[order] == labels).mean() > 0.95


def test_rows_of_a_cluster_that_is_gone_get_the_label_of_the_nearest_row():
    rows = np.repeat([0.0, 5.0, 9.0], [40, 100, 3])[:, None]
    labels = np.repeat([4, 0, 7], [40, 100, 3])
    found, numbers = drop_small(labels, rows, 9)  # cluster 8 has no row
    assert found.tolist() == np.repeat([1, 0, 0], [40, 100, 3]).tolist()
    assert numbers.tolist() == [0, -1, -1, -1, 1, -1, -1, -1, -1]
    assert drop_small(labels[-3:], rows[-3:], 8)[0].tolist() == [0, 0, 0]


def test_components_stay_as_long_as_columns_do():
    random = np.random.default_rng(0)
    y = random.integers(3, size=N)
    X = np.round(random.normal(size=(3, 120))[y] + random.normal(size=(2, N, 120)), 1)
    engine = AutoClustering(effort="fast", random_state=0).fit(X[0])._engine
    before, none, rows = engine.columns, np.zeros(120, bool), np.arange(N)
    mixtures = [each for each in engine.answer.decision.proposals if each.view == "mixture"]
    rule, labels = mixtures[0].make(), np.zeros(N, np.int32)
    previous = PreviousAnswer(labels, rule, engine.origin, before)
    kept = ColumnModel.of(X[1], none, before=before).along_components(X[1], rows, before)
    assert kept.axes is before.axes
    start = previous.start(kept.layout.mixed(kept.prepared(X[1], rows)), kept)
    assert adjusted_rand_score(start.posterior.argmax(axis=1), y) > 0.95
    assert before.of_columns(range(119)).axes is None
    other = ColumnModel.of(X[1], none).along_components(X[1], rows)
    assert previous.start(other.layout.mixed(other.prepared(X[1], rows)), other).mixture is None
