"""MixtureClustering as an estimator: answers, scores, missing values and tables."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc import AutoClustering, MixtureClustering


def four_segments(n=3000, seed=0):
    """A frame of numbers, flags and text with missing values, and the segments."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 4, n)
    frame = pd.DataFrame(
        {
            "age": random.normal(np.array([25, 40, 60, 45])[y], 5).round(),
            "spend": random.lognormal(np.array([2.0, 4.0, 3.0, 5.5])[y], 0.5).round(2),
            "visits": random.poisson(np.array([20, 3, 8, 1])[y]),
            "premium": random.random(n) < np.array([0.1, 0.6, 0.2, 0.9])[y],
            "country": np.array(["DE", "FR", "UK", "IT"], object)[y],
        }
    )
    frame.loc[random.random(n) < 0.5, "country"] = "other country"
    frame.loc[random.random(n) < 0.15, "age"] = np.nan
    frame.loc[random.random(n) < 0.15, "spend"] = np.nan
    return frame, y


def test_segments_of_a_mixed_table_are_found():
    frame, y = four_segments()
    model = MixtureClustering(random_state=0).fit(frame)
    assert model.n_clusters_ == 4
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert np.array_equal(model.predict(frame), model.labels_)
    assert model.probabilities_ == pytest.approx(model.predict_proba(frame).max(axis=1))
    assert frame.columns[model.number_columns_].to_list().count("spend") == 1
    assert set(frame.columns[model.category_columns_]) == {"premium", "country"}


@pytest.mark.parametrize("offset", [3e6, 1e10])
@pytest.mark.parametrize("kind", [MixtureClustering, partial(AutoClustering, effort="fast")])
def test_a_distant_column_changes_no_label(kind, offset):
    random = np.random.default_rng(5)
    y = random.integers(0, 4, 1000)
    X = ((random.normal(size=(1000, 4)) + 8.0 * np.eye(4)[y]) * 2.0**14).round() / 2.0**14
    model, other = kind(random_state=0).fit(X), kind(random_state=0).fit(X + offset)
    assert adjusted_rand_score(y, model.labels_) > 0.99
    assert (other.labels_ == model.labels_).all()
    found = other.decision_function(X + offset)
    assert (found < 0.0).tolist() == (model.decision_function(X) < 0.0).tolist()


def test_the_fit_does_not_depend_on_threads_or_pickles():
    frame, _ = four_segments(800)
    one = MixtureClustering(random_state=0, n_jobs=1).fit(frame)
    two = MixtureClustering(random_state=0, n_jobs=2).fit(frame)
    assert np.array_equal(one.means_, two.means_)
    again = pickle.loads(pickle.dumps(one))
    assert np.array_equal(again.decision_function(frame), one.decision_function(frame))


def test_a_given_number_is_fitted_and_cut():
    frame, _ = four_segments(1500)
    model = MixtureClustering(random_state=0).fit(frame)
    two = MixtureClustering(2, random_state=0).fit(frame)
    assert two.n_clusters_ == 2
    assert np.array_equal(model.cut(2), two.labels_)
    assert np.array_equal(model.cut(2, frame), two.labels_)
    assert model.bic(frame) < two.bic(frame)


@pytest.mark.parametrize(
    ("p", "missing"), [(1, 0.0), (2, 0.0), (5, 0.0), (10, 0.0), (2, 0.2), (5, 0.2), (10, 0.2)]
)
def test_few_rows_of_one_normal_cluster_are_outliers(p, missing):
    random = np.random.default_rng(p)
    X = random.normal(size=(10_000, p))
    X[random.random(X.shape) < missing] = np.nan
    model = MixtureClustering(random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert 0.0015 < (model.decision_function(X) < 0).mean() < 0.01


def test_blocks_refine_the_mixture_of_the_first():
    X, y = four_segments(6000)
    first = MixtureClustering(random_state=0).fit(X[:1000])
    stream = MixtureClustering(random_state=0)
    for place in range(0, len(X), 1000):
        stream.partial_fit(X.iloc[place : place + 1000])
    assert stream.n_clusters_ == first.n_clusters_
    assert not hasattr(stream, "labels_")
    assert stream.bic(X[1000:]) < first.bic(X[1000:])
    assert adjusted_rand_score(y, stream.predict(X)) > 0.9
    again = pickle.loads(pickle.dumps(stream)).partial_fit(X[:500])
    assert (again.means_ != stream.means_).any()


def test_sums_of_blocks_add_up():
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, 2)) + 5.0 * random.integers(0, 2, 4000)[:, None]
    model = MixtureClustering(2, random_state=0).partial_fit(X[:1000])
    before = model.means_
    model.partial_fit(X[1000:2000]).partial_fit(X[2000:])
    assert model._engine.n_rows == 4000
    assert model._engine._sums.mass.sum() == pytest.approx(4000)
    assert (model.means_ != before).any()
