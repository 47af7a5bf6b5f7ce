import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from sklearn.svm import OneClassSVM

from distsvc import LinearOneClassSVM, LinearSVDD

BOTH = [LinearOneClassSVM, LinearSVDD]


def table(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.5
    X[rng.random((n, d)) < 0.3] = 0.0
    return X


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5])
def test_one_class_svm_agrees_with_libsvm(nu):
    X = table()
    ours = LinearOneClassSVM(nu, tol=1e-10).fit(X)
    peer = OneClassSVM(kernel="linear", nu=nu, tol=1e-10).fit(X)
    scale = nu * len(X)
    np.testing.assert_allclose(ours.coef_, peer.coef_ / scale, atol=1e-7)
    assert ours.offset_ == pytest.approx(peer.offset_[0] / scale, abs=1e-7)
    assert ours.objective_ == pytest.approx(0.5 * (peer.coef_**2).sum() / scale**2, rel=1e-9)
    theirs = peer.decision_function(X) / scale
    np.testing.assert_allclose(ours.decision_function(X), theirs, atol=1e-6)
    assert ours.dual_coef_.sum() == pytest.approx(1.0)
    assert ours.dual_coef_.max() <= 1.0 / scale * (1 + 1e-12)
    np.testing.assert_allclose(ours.dual_coef_ @ X[ours.support_], ours.coef_, atol=1e-12)


@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_the_two_problems_coincide_on_rows_of_one_length(nu):
    X = normalize(table())
    ball = LinearSVDD(nu, tol=1e-10).fit(X)
    peer = OneClassSVM(kernel="linear", nu=nu, tol=1e-10).fit(X)
    clear = np.abs(peer.decision_function(X)) > 1e-6
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(ball.predict(X)[clear], peer.predict(X)[clear])
    np.testing.assert_allclose(ball.center_, peer.coef_[0] / (nu * len(X)), atol=1e-7)


@pytest.mark.parametrize("make", BOTH)
def test_dense_and_sparse_rows_give_the_same_answer(make):
    X = table()
    C = sparse.csr_matrix(X)
    dense, thin = make(0.1, tol=1e-10).fit(X), make(0.1, tol=1e-10).fit(C)
    assert thin.objective_ == pytest.approx(dense.objective_, rel=1e-9)
    scores = dense.decision_function(X)
    for other in (dense.decision_function(C), thin.decision_function(X), thin.decision_function(C)):
        np.testing.assert_allclose(other, scores, atol=1e-6)


@pytest.mark.parametrize("make", BOTH)
def test_the_answer_does_not_depend_on_the_layout_of_rows(make):
    X = table().astype(np.float32)
    model = make(0.1).fit(X.astype(np.float64))
    C = sparse.csr_matrix(X)
    unsorted, double = C.copy(), sparse.coo_matrix(X)
    for row in range(C.shape[0]):
        part = slice(C.indptr[row], C.indptr[row + 1])
        unsorted.indices[part], unsorted.data[part] = C.indices[part][::-1], C.data[part][::-1]
    unsorted.has_sorted_indices = False
    halves = [np.concatenate([a, a]) for a in (double.row, double.col)]
    double = sparse.coo_matrix((np.tile(double.data / 2, 2), halves), double.shape)
    double = sparse.csr_matrix((double.data, (double.row, double.col)), double.shape)
    for other in (X, np.asfortranarray(X), C, C.tocsc(), unsorted, double):
        again = make(0.1).fit(other)
        assert again.objective_ == pytest.approx(model.objective_, rel=1e-5)
    wide = C.copy()
    wide.indices, wide.indptr = C.indices.astype(np.int64), C.indptr.astype(np.int64)
    assert make(0.1).fit(wide).objective_ == make(0.1).fit(C).objective_


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("tol", [1e-5, 1e-9])
def test_no_more_than_nu_of_the_rows_are_outside(make, tol):
    X = np.random.default_rng(0).random((200, 400))
    for rows in (X, sparse.csr_matrix(X)):
        model = make(0.1, tol=tol, max_iter=50_000).fit(rows)
        assert len(model.support_) > 22
        assert (model.predict(rows) < 0).sum() <= 20


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_unit_of_the_rows_changes_nothing(make, form):
    usual, small = (make(0.1).fit(form(table() * unit)) for unit in (1.0, 2.0**-50))
    np.testing.assert_array_equal(usual.dual_coef_, small.dual_coef_)


def test_compute_gap_sets_the_duality_gap():
    model = LinearOneClassSVM(0.1, compute_gap=True, tol=1e-6).fit(table())
    assert 0.0 <= model.duality_gap_ <= 1e-6 * model.objective_
    assert not hasattr(LinearOneClassSVM(0.1).fit(table()), "duality_gap_")


def test_too_few_steps_give_a_warning():
    with pytest.warns(
        ConvergenceWarning, match="max_iter = 1 reached with the optimality conditions violated by"
    ):
        LinearOneClassSVM(0.1, max_iter=1).fit(table())


@pytest.mark.parametrize("make", BOTH)
def test_unusable_rows_are_an_error(make):
    X = table()
    X[3, 2] = np.nan
    for bad in (X, sparse.csr_matrix(X)):
        with pytest.raises(ValueError, match="NaN"):
            make().fit(bad)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        make().fit(table(1))
    with pytest.raises(ValueError, match="is expecting 6 features as input"):
        make().fit(table()).predict(sparse.csr_matrix(table(5, 7)))


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("index", [-1, 6])
def test_column_indices_out_of_range_are_an_error(make, index):
    X = sparse.csr_matrix(table())
    model = make().fit(X)
    X.indices[4] = index
    message = rf"indices of the sparse matrix must lie in \[0, 6\), found column {index}"
    with pytest.raises(ValueError, match=message):
        make().fit(X)
    with pytest.raises(ValueError, match=message):
        model.predict(X)
