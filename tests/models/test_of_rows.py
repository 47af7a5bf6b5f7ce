"""Attributes of the rows of a fit: labels, probabilities, outlier scores; and cuts."""

import pickle
import warnings

import dask.array as da
import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from distsvc import AutoClustering, IncrementalMDH, SupportVectorClustering
from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans
from tests.quiet_fits import quietly

OURS = {
    "level tree": SupportVectorClustering(effort="fast", random_state=0),
    "noise": SupportVectorClustering(effort="fast", nu=0.1, noise=True, random_state=0),
    "boundary": SupportVectorClustering(gamma=4.0, nu=0.1, random_state=0),
    "auto": AutoClustering(effort="fast", random_state=0),
    "imdh": IncrementalMDH(random_state=0),
}
BASELINES = {
    "bico": BICO(6, random_state=0),
    "fuzzy": FuzzyCMeans(6, random_state=0),
    "depddp": DePDDP(),
    "spdc": SPDC(window=100, random_state=0),
}
ALL = OURS | BASELINES
CUT = {name: of for name, of in ALL.items() if name != "boundary"}


@pytest.fixture(scope="module")
def X():  # noqa: N802
    rows, _ = make_blobs(600, centers=[[0, 0], [2, 0], [0, 2]], cluster_std=0.3, random_state=0)
    return rows


@pytest.fixture(scope="module")
def fitted(X):
    return {name: quietly(clone(of), X) for name, of in ALL.items()}


@pytest.mark.parametrize("name", ALL)
def test_every_row_has_a_probability_and_an_outlier_score(fitted, X, name):
    model = fitted[name]
    assert model.probabilities_.shape == model.outlier_scores_.shape == (len(X),)
    assert (model.probabilities_.dtype, model.outlier_scores_.dtype) == (np.float32, np.float64)
    assert model.probabilities_.min() >= 0.0
    assert model.probabilities_.max() <= 1.0
    assert len(np.unique(model.probabilities_)) > 100
    assert len(np.unique(model.outlier_scores_)) > 100


@pytest.mark.parametrize("name", OURS)
def test_attributes_equal_the_values_of_methods(fitted, X, name):
    model = fitted[name]
    own = model.predict_proba(X).max(axis=1)
    inside = model.labels_ >= 0
    if name != "boundary":  # where the nearest boundary row decides, not the largest share
        assert np.array_equal(model.probabilities_[inside], own[inside])
    else:
        shares = model.predict_proba(X)
        assert np.array_equal(model.probabilities_, shares[np.arange(len(X)), model.labels_])
    assert (model.probabilities_[~inside] == 0.0).all()
    score = model.score_samples if name == "imdh" else model.decision_function
    assert np.array_equal(model.outlier_scores_, -score(X))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ALL)
def test_attributes_are_lazy_and_of_the_rows_at_the_fit(fitted, X, name):
    model, rows = clone(ALL[name]), X.copy()
    assert not hasattr(model, "probabilities_")
    assert not hasattr(model, "outlier_scores_")
    model.fit(rows)
    assert "outlier_scores_" not in vars(model)
    rows[:] = 0.0
    for attribute in ("probabilities_", "outlier_scores_"):
        assert np.array_equal(getattr(model, attribute), getattr(fitted[name], attribute))
    model.fit(X[:500])
    assert model.probabilities_.shape == model.outlier_scores_.shape == (500,)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ALL)
def test_a_pickled_model_has_the_attributes_and_not_the_rows(fitted, X, name):
    again = pickle.loads(pickle.dumps(clone(ALL[name]).fit(X)))
    for attribute in ("labels_", "probabilities_", "outlier_scores_"):
        assert np.array_equal(getattr(again, attribute), getattr(fitted[name], attribute))
    if name in ("boundary", *BASELINES):
        wide = [key for key, value in vars(again).items() if getattr(value, "shape", 0) == X.shape]
        assert wide == []
    if name in CUT:
        assert np.array_equal(again.cut(2), fitted[name].cut(2))


@pytest.mark.parametrize("name", OURS)
def test_a_table_in_blocks_has_the_same_attributes(fitted, X, name):
    model = fitted[name]
    for table in (pl.DataFrame(X, schema=["a", "b"]), da.from_array(X, chunks=(200, 2))):
        other = clone(model).fit(table)
        for attribute in ("labels_", "probabilities_", "outlier_scores_"):
            assert np.array_equal(np.asarray(getattr(other, attribute)), getattr(model, attribute))


@pytest.mark.parametrize("name", ["imdh", "bico", "spdc"])
def test_more_rows_drop_the_attributes(fitted, X, name):
    model = pickle.loads(pickle.dumps(fitted[name]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="partial_fit discards the model of fit")
        model.partial_fit(X[:100])
    for attribute in ("labels_", "probabilities_", "outlier_scores_"):
        assert not hasattr(model, attribute)
    with pytest.raises(ValueError, match="cut needs X"):
        model.cut(2)
    assert len(set(model.cut(2, X).tolist())) <= 2


@pytest.mark.parametrize("name", CUT)
def test_a_cut_is_the_same_for_given_rows(fitted, X, name):
    model = fitted[name]
    labels = model.cut(2)
    assert labels.dtype == np.int32
    assert set(labels.tolist()) - {-1} == {0, 1}
    inside = labels >= 0
    assert np.bincount(labels[inside]).argmax() == 0
    assert np.array_equal(model.cut(2, X), labels)
    assert np.array_equal(model.cut(2, X[:50]), labels[:50])
    assert np.array_equal(model.cut(n_clusters=2, X=X), labels)
    assert set(model.cut(1).tolist()) - {-1} == {0}
    for wrong in (0, 1.5, "two"):
        with pytest.raises(ValueError, match="n_clusters must be a whole number of at least 1"):
            model.cut(wrong)


@pytest.mark.parametrize("name", BASELINES)
def test_a_cut_of_a_baseline_merges_whole_clusters(fitted, name):
    model = fitted[name]
    k = model.labels_.max() + 1
    before = model.labels_
    for n in range(k, 0, -1):
        labels = model.cut(n)
        assert len(np.unique(labels)) == n
        assert len(np.unique(np.column_stack([before, labels]), axis=0)) == len(np.unique(before))
        before = labels
    assert adjusted_rand_score(model.cut(k), model.labels_) == 1.0
    with pytest.warns(UserWarning, match=f"{k + 1} clusters were asked for, but the fit has only"):
        assert model.cut(k + 1).max() + 1 == k


@pytest.mark.parametrize("name", ALL)
def test_sparse_rows_are_refused_with_a_remedy(X, name):
    words = "takes no sparse rows.*TruncatedSVD.*LinearSVDD, LinearOneClassSVM"
    with pytest.raises(TypeError, match=f"{type(ALL[name]).__name__} {words}"):
        clone(ALL[name]).fit(csr_matrix(X))
