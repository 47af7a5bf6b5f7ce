"""The default on modelled columns: clusters, answers that are kept, irrelevant changes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc import (
    AutoClustering,
    IncrementalMDH,
    MixtureClustering,
    SupportVectorClustering,
)
from distsvc.models.automatic.decision import ViewDecision, _preferred, decide
from distsvc.models.automatic.mixture_proposals import (
    SEARCH_ROWS,
    Mixtures,
    _agreement_of_halves,
    _final_rule,
    _refit,
    mixture_proposals,
)
from distsvc.models.automatic.previous import MixtureStart
from distsvc.models.automatic.proposals import PartitionProposal
from distsvc.models.mixture.density import MixtureRows
from distsvc.models.mixture.population import PopulationRows, Quality, ScaledNumbers, quality_of
from distsvc.models.mixture.search import search
from distsvc.models.rows.agreement import SAME_ANSWER, rand_indices
from distsvc.models.rows.sampling import lowest, row_keys
from distsvc.run.job import run_job
from tests.quiet_fits import quietly
from tests.small_runs import small_job, write_table

N = 1200


def customers(n=N, seed=0, classes=3):
    """Return a table of rounded, skewed and counted columns, an idle flag, and its classes."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, n)
    age = np.round(np.array([30, 45, 62])[y] + 6 * random.normal(size=n))
    spend = np.round(np.exp(np.array([3, 4.5, 5.5])[y] + 0.5 * random.normal(size=n)), 2)
    visits = random.poisson(np.array([2, 7, 18])[y])
    flag, noise = random.random(n) < 0.4, np.round(random.normal(size=n), 1)
    return np.stack([age, spend, visits, flag, noise], axis=1).astype(float), y


def fitted(X, **parameters):
    return quietly(AutoClustering(effort="fast", random_state=0, **parameters), X)


@pytest.fixture(scope="module")
def model():
    return fitted(customers()[0])


def test_classes_are_found_among_rounded_values_counts_and_flags(model):
    _, y = customers()
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(y, model.labels_) > 0.85
    assert model.algorithm_ in ("mixture", "graph")
    assert 0.5 < model.agreement_ <= 1.0
    assert model.algorithm_ in model.why_


def test_answers_to_a_questionnaire_are_found():
    found = []
    for seed in range(1, 6):
        random = np.random.default_rng(seed)
        y = random.integers(0, 3, N)
        noise = random.normal(0, 0.8, (N, 12)) + random.normal(0, 0.4, (N, 1))
        X = np.clip(np.round(random.uniform(1.5, 4.5, (3, 12))[y] + noise), 1, 5)
        found.append(adjusted_rand_score(y, fitted(X).labels_))
    assert np.mean(found) > 0.8


def test_a_tree_of_fewer_clusters_than_wanted_has_no_answer(model):
    engine, (_, y) = model._engine, customers()
    order = lowest(row_keys(engine.column_trees.seed, np.arange(N)), N)
    tree = PartitionProposal("graph", y[order], y[order], lambda: None)
    rows = engine.modelled
    given = rows, engine.pilot
    mixtures = mixture_proposals(*given, 5, 1, engine.views._mixture_rule)
    populations = rows.populations(N, 1)
    assert decided_on(populations, mixtures, [tree], 5).best.n_clusters == 5
    assert decided_on(populations, mixtures, [tree]).best.n_clusters == 3


def test_halves_of_the_rows_find_classes_again_and_no_cut_at_random():
    X, y = customers()
    engine = fitted(X)._engine
    y = y[lowest(row_keys(engine.column_trees.seed, np.arange(N)), N)]
    cut = np.where((y == 0) & (np.arange(N) % 4 < 2), 3, y)
    given = engine.modelled.draws, engine.pilot, engine.modelled.row_numbers
    classes, cuts = _agreement_of_halves([y, cut], *given, "diagonal", 1)
    assert classes > 0.85
    assert cuts < classes - 0.1
    assert len(_agreement_of_halves([], *given, "diagonal", 1)) == 0
    assert _agreement_of_halves([y, cut], *given, "diagonal", 2).tolist() == [classes, cuts]


def test_a_curved_class_is_not_cut_where_each_half_would_cut_it():
    random = np.random.default_rng(0)
    t = random.uniform(-3, 3, 1000)
    curve = np.stack([t, t**2, np.sin(t), t**3], axis=1)
    X = np.round(curve + random.normal(0, 0.2, (1000, 4)), 2)
    engine = fitted(X)._engine
    rows, numbers = engine.modelled.draws, engine.modelled.row_numbers
    make_rule = engine.views._mixture_rule
    found = mixture_proposals(engine.modelled, engine.pilot, None, 1, make_rule)
    labels = [each.labels for each in found.proposals]
    shape = search(rows, engine.pilot).best.mixture.shape
    again = _agreement_of_halves(labels, rows, engine.pilot, numbers, shape, 1)
    assert len(labels) == 1 or again.min() >= SAME_ANSWER


def test_the_mixture_of_the_answer_is_fitted_to_all_pilot_rows():
    n = SEARCH_ROWS + 500
    model, made = fitted(customers(n)[0]), []
    rows = model._engine.modelled.draws
    first = rows.take(np.arange(SEARCH_ROWS))
    found = search(first, model._engine.pilot[:SEARCH_ROWS], 3).best.mixture
    cluster = np.arange(found.n_components)
    _final_rule(rows, rows, found, cluster, lambda mixture, *_: made.append(mixture))
    assert made[0].likelihoods(rows).sum() > found.likelihoods(rows).sum() + 1.0


def decided_on(rows, mixtures, trees=(), n_clusters=None, before=None, further=None):
    """Describe all proposals by populations of `rows`, and decide; `further` has more rows."""
    for each in (mixtures.one, *mixtures.proposals, *trees):
        each.measure(rows)
    numbers = np.arange(len(rows))
    return decide(mixtures, trees, numbers, n_clusters, before, lambda: further)


def populations_of(X):
    return PopulationRows(
        (ScaledNumbers(X, X),), X == X, np.zeros((len(X), 0), np.int64), np.zeros(0, np.int64),
        np.full(X.shape[1], -1),
    )  # fmt: skip


def decided(gains, apart):
    """Decide between two clusters and one; normals have `gains` (n,) nats more than one cluster.

    Returns the proposal of two clusters and the decision.
    """
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = random.normal(size=(400, 2)) + 4.0 * y[:, None]
    rows, nought = populations_of(X), np.zeros(400, np.int64)
    whole = quality_of(rows, nought)
    normals = Quality(whole.log_density + gains, whole.n_parameters)
    drawn = y if apart else np.where(np.arange(400) % 8 == 0, 1 - y, y)
    several = PartitionProposal("mixture", y, drawn, made_nowhere)
    one = PartitionProposal("mixture", nought, nought, made_nowhere)
    mixtures = Mixtures([several], one, normals)
    return several, decided_on(rows, mixtures)


@pytest.mark.parametrize(
    ("errors", "apart", "n_clusters"), [(-0.5, False, 1), (0.5, False, 2), (-2.5, True, 2)]
)
def test_normals_have_to_beat_one_cluster_unless_clusters_lie_apart(errors, apart, n_clusters):
    gains = np.resize([1.0, -1.0], 400) + errors / 20.0  # their sum is 20 errors of size 20
    assert decided(gains, apart)[1].best.n_clusters == n_clusters


def test_another_answer_is_as_probable_as_samples_that_prefer_no_partition_like_the_published():
    cuts = {cut: (np.arange(1000) >= cut).astype(np.int64) for cut in (500, 550, 600)}
    every = [PartitionProposal("mixture", labels, labels, made_nowhere) for labels in cuts.values()]
    for each, share in zip(every, (0.4, 0.35, 0.25), strict=True):
        each.preferred = share  # of the neighbours, each is like the next one
    found = ViewDecision(every[0], every, followed=False).alternative
    assert (found.proposal, found.chance) == (every[2], 0.25)
    assert found.likeness == pytest.approx(adjusted_rand_score(cuts[500], cuts[600]))
    assert ViewDecision(every[1], every, followed=False).alternative is None


def test_overlapping_clusters_are_as_probable_as_their_normals():
    """Normals are as good as one cluster: another sample may find less."""
    several, found = decided(np.resize([1.0, -1.0], 400), apart=False)
    assert several.agreement == pytest.approx(0.5, abs=0.1)
    assert found.best.agreement == pytest.approx(0.5, abs=0.1)
    several, found = decided(np.resize([0.9, -1.1], 400), apart=False)
    assert (found.best.n_clusters, found.alternative.proposal) == (1, several)
    assert found.alternative.chance == pytest.approx(several.agreement)
    assert several.agreement < 0.1
    assert found.best.agreement == pytest.approx(1.0 - several.agreement)


def test_the_answer_agrees_best_with_those_that_other_samples_prefer():
    """Two partitions that are nearly alike win against one that is as good as either."""
    random = np.random.default_rng(0)
    y, n = np.repeat([0, 1, 2], 200), 600
    cut, moved = np.arange(n) % 2, np.where(np.arange(n) % 50 == 0, (y + 1) % 3, y)
    one = Quality(random.normal(size=n), 0)
    several = [Quality(random.normal(size=n), 0) for _ in range(3)]
    means = -1.0, 0.01, 0.0, 0.0
    for each, mean in zip([one, *several], means, strict=True):
        each.log_density[:] += mean - each.log_density.mean()
    proposals = [
        PartitionProposal("graph", labels, labels, made_nowhere, quality=quality)
        for labels, quality in zip((0 * y, cut, y, moved), (one, *several), strict=True)
    ]
    shares = _preferred(proposals, Mixtures([], proposals[0], one), np.arange(n), False)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] == 0.0
    assert shares[1] > shares[2:].max() - 0.1
    best = int((rand_indices([each.labels for each in proposals]) @ shares).argmax())
    assert best in (2, 3)


def test_an_answer_that_halves_hardly_find_again_has_a_small_chance():
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = random.normal(size=(400, 2)) + 9.0 * y[:, None]
    several = PartitionProposal("mixture", y, y, made_nowhere, found_again=0.6)
    one = PartitionProposal("mixture", 0 * y, 0 * y, made_nowhere)
    mixtures = Mixtures([several], one, Quality(np.full(400, -9.0), 1))
    assert decided_on(populations_of(X), mixtures).best is several
    assert several.agreement == pytest.approx(0.6**2)  # of this sample and of the other


@pytest.mark.parametrize(("distance", "overlaps"), [(2.0, True), (6.0, False)])
def test_clusters_that_overlap_have_rows_of_another_cluster(distance, overlaps):
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 600)
    X = random.normal(size=(1200, 2))
    X[:, 0] += distance * y
    nearest = (X[:, 0] > distance / 2).astype(np.int64)
    tree = PartitionProposal("graph", nearest, y, made_nowhere)
    one = PartitionProposal("mixture", 0 * y, 0 * y, made_nowhere)
    mixtures = Mixtures([], one, Quality(np.zeros(1200), 0))
    found = decided_on(populations_of(X), mixtures, [tree], 2)
    expected = (nearest != y).mean()  # of the true classes
    assert found.overlap == (pytest.approx(expected, abs=0.02) if overlaps else None)


def made_nowhere():
    raise AssertionError("the rule is not needed")


def test_rows_are_labelled_by_their_values_alone(model):
    X, _ = customers()
    assert (model.predict(X) == model.labels_).all()
    some = np.array([0, 5, 900, 5])
    assert (model.predict(X[some]) == model.labels_[some]).all()
    assert (model.decision_function(X)[some] == model.decision_function(X[some])).all()
    shares = model.predict_proba(X)
    assert shares.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert (shares.argmax(axis=1) == model.labels_).mean() > 0.99


def test_missing_values_are_integrated_over():
    X, y = customers()
    X[np.random.default_rng(2).random(X.shape) < 0.05] = np.nan
    found = fitted(X)
    assert adjusted_rand_score(y, found.labels_) > 0.75
    assert np.isfinite(found.decision_function(X)).all()


def test_a_frame_with_categories_is_taken_and_its_levels_are_kept():
    X, y = customers()
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["plan"] = np.array(["basic", "plus", "max"])[y]
    frame.loc[::9, "a"] = np.nan
    found = fitted(frame)
    assert adjusted_rand_score(y, found.labels_) > 0.9
    assert (found.predict(frame.iloc[:7]) == found.labels_[:7]).all()
    assert found.predict(frame.iloc[:7].assign(plan="unknown")).shape == (7,)


def almost(value, n):
    """Return a column that is constant up to rounding errors."""
    return value * (1.0 + np.arange(n) % 3 * 1e-16)


SAME = {
    "constant column": lambda X: np.hstack([X, np.full((len(X), 1), 0.1)]),
    "constant up to rounding": lambda X: np.hstack([X, almost(1e6, len(X))[:, None]]),
    "copied column": lambda X: np.hstack([X, X[:, :1]]),
}
ALIKE = {
    "row order": lambda X: X[::-1],
    "column order": lambda X: X[:, [2, 0, 4, 1, 3]],
    "units": lambda X: X * np.array([1.0, 4.0, 2.0, 0.5, 0.01]),
    "affine": lambda X: X @ np.diag([9 / 5, 1, 1, 1, -1.0]) + np.array([32, 0, 0, 1, 0]),
    "the table twice": lambda X: np.vstack([X, X]),
    "one row more": lambda X: np.vstack([X, X[-1:]]),
}


@pytest.mark.parametrize("change", SAME)
def test_columns_that_say_nothing_change_nothing(model, change):
    assert (fitted(SAME[change](customers()[0])).labels_ == model.labels_).all()


@pytest.mark.parametrize("change", ALIKE)
def test_what_should_not_matter_hardly_does(model, change):
    found = fitted(ALIKE[change](customers()[0])).labels_[:N]
    expected = model.labels_[::-1] if change == "row order" else model.labels_
    assert adjusted_rand_score(expected, found) > 0.9


@pytest.mark.parametrize("change", SAME | ALIKE)
def test_one_class_stays_one(change):
    random = np.random.default_rng(1)
    X = np.round(random.normal(50, 10, (N, 5)))
    X[:, 4] = random.random(N) < 0.5
    found = fitted((SAME | ALIKE)[change](X))
    assert (found.n_clusters_, "One cluster" in found.why_) == (1, True)


def test_names_of_columns_do_not_matter():
    X, _ = customers(n=400)
    labels = [fitted(pd.DataFrame(X, columns=list(names))).labels_ for names in ("abcde", "vwxyz")]
    assert (labels[0] == labels[1]).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_seed_hardly_matters(model, seed):
    other = AutoClustering(effort="fast", random_state=seed).fit(customers()[0])
    assert adjusted_rand_score(model.labels_, other.labels_) > 0.95


def test_the_answer_of_the_run_before_is_a_proposal():
    X, y = customers()
    before = np.where(y == 2, 1, y)  # two of the classes were one cluster
    engine = fitted(X)._engine
    order, rows = lowest(row_keys(engine.column_trees.seed, np.arange(N)), N), engine.modelled
    start = MixtureStart(np.eye(2)[before[order]], np.arange(2))
    given = rows, engine.pilot
    found = mixture_proposals(*given, None, 1, engine.views._mixture_rule, start)
    like = [adjusted_rand_score(before[order], each.labels) for each in found.proposals]
    assert max(like) > 0.9


def test_up_to_three_continuous_columns_stay_as_stored():
    X = np.random.default_rng(0).normal(size=(300, 3))
    assert fitted(X)._engine.columns is None
    assert fitted(np.round(X))._engine.columns is not None


def test_rows_of_one_length_stay_as_stored():
    X = np.random.default_rng(0).normal(size=(300, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert fitted(np.round(X, 3))._engine.columns is None
    year = 2020.0 + np.arange(300)[:, None] % 5  # rows of nearly one length, which are no vectors
    assert fitted(np.hstack([year, X]))._engine.columns is not None


def wide_table(n=N, seed=0, classes=3, d=120):
    """Return skewed amounts, counts and flags, a few of which depend on the class, and classes."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, n)
    normal = (
        random.normal(size=(n, d)) + 0.8 * np.random.default_rng(7).normal(size=(classes, d))[y]
    )
    counts = random.poisson(np.exp(1 + 0.3 * normal[:, 40:80]))
    return np.hstack([np.round(np.exp(normal[:, :40]), 2), counts, normal[:, 80:] > 0.5]), y


def test_classes_are_found_in_many_columns_along_components():
    X, y = wide_table()
    model = fitted(X)
    assert 1 <= len(model._engine.columns.axes) <= 20
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert (model.predict(X) == model.labels_).all()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    assert adjusted_rand_score(y, fitted(X).labels_) > 0.8
    assert fitted(wide_table(classes=1)[0]).n_clusters_ == 1


def test_many_columns_of_signals_stay_as_stored():
    random = np.random.default_rng(0)
    few, noise = random.normal(size=(300, 4)), random.normal(size=(300, 120))
    assert fitted(few @ random.normal(size=(4, 120)) + noise)._engine.columns is None
    assert fitted(noise)._engine.columns is not None
    assert fitted(few[:, :1] + 0.3 * noise).n_clusters_ == 1  # as stored they are nine
    assert fitted(few[:, :1].repeat(120, axis=1)).n_clusters_ == 1


def test_a_few_points_are_a_cluster_each_and_all_combinations_of_flags_are_not():
    random = np.random.default_rng(0)
    points = np.array([[0, 0, 2], [8, 0, 0], [2, 8, 4]], float)
    assert fitted(points[random.integers(0, 3, 600)]).n_clusters_ == 3
    assert fitted(random.integers(0, 2, (600, 2)).astype(float)).n_clusters_ == 1


def test_uniform_columns_are_one_cluster_and_ratings_one_or_five():
    assert fitted(np.random.default_rng(4).random((1500, 10))).n_clusters_ == 1
    ratings = np.random.default_rng(0).integers(1, 6, 1000).astype(float)[:, None]
    assert fitted(ratings).n_clusters_ in (1, 5)


@pytest.mark.parametrize(("step", "n_clusters"), [(0.0, 1), (6.0, 2)])
def test_an_answer_replaces_the_previous_one_if_it_describes_other_rows_better(step, n_clusters):
    """Two clusters describe the first rows better than one; with a step of 0, not the others."""
    random = np.random.default_rng(0)
    y = np.resize([0, 1], 800)
    X = random.normal(size=(800, 2)) + 6.0 * y[:, None]
    X[400:] = random.normal(size=(400, 2)) + 3.0 if step == 0.0 else X[400:]
    nought = np.zeros(400, np.int64)
    several = PartitionProposal("mixture", y[:400], y[:400], made_nowhere)
    one = PartitionProposal("mixture", nought, nought, made_nowhere)
    mixtures = Mixtures([several], one, Quality(np.full(400, -9.0), 1))
    further = populations_of(X)
    found = decided_on(populations_of(X[:400]), mixtures, before=nought, further=further)
    assert (found.best.n_clusters, found.followed) == (n_clusters, n_clusters == 1)


def test_previous_clusters_that_are_one_tonight_are_joined():
    """Two descriptions of one cluster are hardly worse, but need twice as many parameters."""
    random = np.random.default_rng(0)
    X, y, nought = random.normal(size=(800, 6)), np.resize([0, 1], 400), np.zeros(400, np.int64)
    X[:, 1:] += X[:, :1]
    several = PartitionProposal("mixture", y, y, made_nowhere)
    one = PartitionProposal("mixture", nought, nought, made_nowhere)
    mixtures = Mixtures([several], one, Quality(np.full(400, -9.0), 1))
    found = decided_on(populations_of(X[:400]), mixtures, before=y, further=populations_of(X))
    assert (found.best.n_clusters, found.followed) == (1, False)


def test_a_cluster_that_is_gone_tonight_does_not_go_on():
    X = np.random.default_rng(0).normal(size=(900, 2)) + np.repeat([0.0, 9.0], 450)[:, None]
    rows = MixtureRows(X, np.zeros((900, 0), np.int32), np.zeros(0, np.int64))
    before = np.repeat([0, 1, 2], [3, 447, 450])
    start = MixtureStart(np.eye(3)[before], np.arange(3))
    _, mixture, cluster, posterior = _refit(start, rows, rows, "diagonal", least=9)
    assert mixture.n_components == posterior.shape[1] == 2
    assert cluster.tolist() == [0, 1]
    assert adjusted_rand_score(posterior.argmax(axis=1), np.repeat([0, 1], 450)) == 1.0


def test_a_cluster_that_is_large_only_in_draws_is_left_out():
    draws, none = np.random.default_rng(0).normal(size=(900, 2)), np.zeros((900, 0), np.int32)
    draws[450:] += 9.0
    labelled, before = draws.copy(), np.repeat([0, 1, 2], [30, 420, 450])
    draws[:30, 0] -= 15.0
    rows, values = (MixtureRows(X, none, np.zeros(0, np.int64)) for X in (draws, labelled))
    start = MixtureStart(np.eye(3)[before], np.arange(3))
    for of, k in (rows, 3), (values, 2):
        assert _refit(start, rows, of, "diagonal", least=9)[1].n_components == k
        pilot = SimpleNamespace(draws=rows, medians=of, row_numbers=np.arange(900))
        found = mixture_proposals(pilot, draws, None, 1, made_nowhere).proposals
        is_apart = [set(each.labels[:30]).isdisjoint(each.labels[30:]) for each in found]
        assert any(is_apart) == (of is rows)


def test_the_mixture_of_the_run_before_counts_as_as_many_rows_again():
    X = np.random.default_rng(0).normal(size=(900, 2)) + np.repeat([0.0, 9.0], 450)[:, None]
    rows = MixtureRows(X, np.zeros((900, 0), np.int32), np.zeros(0, np.int64))
    posterior = np.eye(2)[np.repeat([0, 1], 450)]
    alone = _refit(MixtureStart(posterior, np.arange(2)), rows, rows, "diagonal", least=9)[1]
    before = replace(alone, means=alone.means + 1.0)
    for kept in (before, replace(before, weights=np.array([0.5, 0.0]))):  # one was empty
        start = MixtureStart(posterior, np.arange(2), kept)
        after = _refit(start, rows, rows, "diagonal", least=9)[1]
        moved = after.means - alone.means
        assert moved[0] == pytest.approx(0.5, abs=0.01)
        assert moved[1] == pytest.approx(0.5 if kept is before else 0.0, abs=0.01)


RATINGS = 1.0 + np.random.default_rng(0).binomial(4, 0.4, (1000, 1))
THREE = np.random.default_rng(0).normal(2.0 * np.eye(3, 2)[np.arange(900) % 3], 0.25)


@pytest.mark.parametrize(("make", "X", "found"), [
    (AutoClustering(5, effort="fast", random_state=0), RATINGS, 4),  # a graph
    (AutoClustering(7, effort="fast", random_state=0), RATINGS, 4),  # a mixture
    (SupportVectorClustering(2.0, n_clusters=7, random_state=0), THREE, 3),
])  # fmt: skip
def test_fewer_clusters_than_wanted_give_a_warning(make, X, found):
    with pytest.warns(UserWarning, match=f"clusters were asked for, but only {found} have rows"):
        sizes = np.bincount(make.fit(X).labels_)
    if isinstance(make, AutoClustering):
        assert sorted(sizes, reverse=True) == sizes[:found].tolist()


@pytest.mark.parametrize("model", [
    AutoClustering(effort="fast", random_state=0),
    SupportVectorClustering(n_clusters=3, random_state=0),
    IncrementalMDH(3, random_state=0),
    MixtureClustering(random_state=0),
], ids=lambda model: type(model).__name__)  # fmt: skip
def test_a_cut_into_fewer_clusters_than_wanted_gives_a_warning(model, recwarn):
    X = RATINGS if isinstance(model, AutoClustering) else THREE[:60]
    model.fit(X)
    recwarn.clear()
    found = len(set(model.cut(50).tolist()))
    assert found < 50
    expected = f"50 clusters were asked for, but only {found} have rows"
    assert [str(each.message) for each in recwarn] == [expected]
    recwarn.clear()
    model.cut(2)
    model.cut(2, X)
    assert not recwarn.list


@pytest.mark.parametrize("make", [AutoClustering, MixtureClustering])
def test_a_cut_into_any_number_ends(make, monkeypatch):
    monkeypatch.setattr("distsvc.models.mixture.search.MAX_WANTED", 30)
    X = np.random.default_rng(0).normal(size=(300, 5))
    model = make(random_state=0).fit(X)
    with pytest.warns(UserWarning, match="1000000 clusters were asked for, but only"):
        labels = model.cut(10**6)
    with pytest.warns(UserWarning, match="31 clusters were asked for, but only"):
        assert (model.cut(31) == labels).all()
    assert 2 < len(set(labels.tolist())) <= 30


@pytest.mark.usefixtures("quick_page")
@pytest.mark.parametrize("algorithm", ["auto", "mixture", "fuzzy-c-means"])
def test_a_job_names_the_number_of_clusters_with_rows(algorithm, tmp_path):
    path, model = write_table(tmp_path / "1.parquet", RATINGS), {"algorithm": algorithm}
    run = run_job(small_job(path, model | {"n_clusters": 7}, preprocess={"scale": None}))
    assert sum("7 clusters" in text for text in run.warnings) == 1
