import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import random_array

from distsvc.kernels.rows import (
    coordinates,
    hash_texts,
    largest_others,
    pairs_together,
    project,
    walk_on,
)
from tests import reference


def table(n, d, q, seed=0):
    rng = np.random.default_rng(seed)
    X, components = rng.normal(scale=3.0, size=(n, d)), rng.normal(size=(q, d))
    return X.astype(np.float32), components.astype(np.float32)


@pytest.mark.parametrize("d", [1, 2, 5, 40])
@pytest.mark.parametrize("q", [1, 3, 20])
def test_twin_project(d, q):
    X, components = table(17, d, q)
    found = project(X, components)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    expected = np.float64(X) @ np.float64(components).T
    atol = 1e-6 * d * np.abs(X).max() * np.abs(components).max()
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol)
    plain = reference.plain(coordinates)(X, components)
    np.testing.assert_allclose(plain, expected, rtol=0.0, atol=atol)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 25), st.integers(1, 9), st.lists(st.integers(0, 40), max_size=5))
def test_a_row_does_not_depend_on_its_block(d, q, cuts):
    X, components = table(40, d, q, seed=d)
    parts = [project(part.copy(), components) for part in np.split(X, sorted(cuts))]
    assert np.concatenate(parts).tobytes() == project(X, components).tobytes()


def test_one_form_serves_every_layout_of_components():
    X, components = table(20, 9, 4)
    found = project(X, components)
    compiled = len(coordinates.signatures)  # arrays that can't be written have forms of their own
    for other in (np.asfortranarray(components), np.asfortranarray(components)[:2]):
        assert project(X, other).tobytes() == found[:, : len(other)].tobytes()
    assert len(coordinates.signatures) == compiled


def test_the_axes_leave_rows_as_they_are():
    X = table(20, 3, 1)[0]
    assert project(X, np.eye(3, dtype=np.float32)).tobytes() == X.tobytes()


@reference.forms(hash_texts)
def test_twin_hash_texts(form):
    @settings(deadline=None, max_examples=100)
    @given(st.lists(st.binary(max_size=9), max_size=5), st.binary(max_size=3))
    def check(texts, before):
        data = np.array(list(before + b"".join(texts)), np.uint8)
        ends = np.cumsum([len(before), *map(len, texts)])
        hashes = np.empty(len(texts), np.uint64)
        with np.errstate(over="ignore"):
            form(data, ends, hashes)
        assert hashes.tolist() == [reference.fnv_1a(text) for text in texts]

    check()


def test_published_values():
    data = np.array(list(b"foobar"), np.uint8)
    hashes = np.empty(2, np.uint64)
    hash_texts(data, np.array([0, 0, 6]), hashes)
    assert [hex(one) for one in hashes.tolist()] == ["0xcbf29ce484222325", "0x85944171f73967e8"]


BOTH = pytest.mark.parametrize("plain", [False, True])


def labels(m, n, seed=0):
    random = np.random.default_rng(seed)
    found = np.array([random.integers(0, random.integers(1, 9), n) for _ in range(m)], np.int32)
    return found, found.max(axis=1) + 1


@BOTH
def test_pairs_that_two_clusterings_keep_together(plain):
    rows, sizes = labels(5, 40)
    kernel = reference.plain(pairs_together) if plain else pairs_together
    same = rows[:, :, None] == rows[:, None]
    expected = [[((p & q).sum() - 40) // 2 for q in same] for p in same]
    assert kernel(rows, sizes).tolist() == expected


def test_the_largest_besides_the_own():
    shares = np.array([[0.1, 0.5, 0.1, 0.3], [0.0, 0.2, 0.8, 0.0]], np.float32)
    others, other_shares = np.empty((2, 3), np.int32), np.empty((2, 3), np.float32)
    largest_others(shares, np.array([1, 1], np.int32), others, other_shares)
    assert others.tolist() == [[3, 0, 2], [2, 0, 3]]
    np.testing.assert_allclose(other_shares, [[0.3, 0.1, 0.1], [0.8, 0.0, 0.0]])


@pytest.mark.parametrize("density", [0.0, 0.02, 0.3])
def test_twin_walk_on(density):
    m, random = 60, np.random.default_rng(0)
    W = random_array((m, m), density=density, rng=random).astype(np.float32).tocsr()
    X, Z = random.normal(size=(2, m, 33)).astype(np.float32)
    expected = 0.5 * (W @ X) + 2.0 * X - 3.0 * Z
    factors = map(np.float32, (0.5, 2.0, 3.0))
    walk_on(W.data, W.indices.astype(np.int64), W.indptr.astype(np.int64), X, Z, *factors)
    assert pytest.approx(expected, rel=1e-5, abs=1e-5) == Z
