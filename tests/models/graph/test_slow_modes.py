import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.sparse import csr_array

from distsvc.models.graph.coordinates import MOST_COORDINATES, RESTARTS
from distsvc.models.graph.slow_modes import slowest_modes


def walk(weights):
    """The symmetric matrix of a walk with such weights (m, m), and its stationary vector."""
    roots = np.sqrt(weights.sum(axis=1))
    return weights / np.outer(roots, roots), roots / np.linalg.norm(roots)


def pieces(n_pieces, size=60, seed=0):
    """Weights of a graph in pieces, each a cloud of points."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(n_pieces, size, 2))
    apart = np.square(points[:, :, None] - points[:, None]).sum(axis=3)
    return block_diag(*np.exp(-apart))


def found(weights, k=MOST_COORDINATES):
    similar, stationary = walk(weights)
    return slowest_modes(csr_array(similar), stationary, k, RESTARTS)


@pytest.mark.parametrize("n_pieces", [1, 3, 12])
def test_modes_are_those_of_all_eigenvectors(n_pieces):
    """Lanczos's method misses some of the twelve pieces, which are equally slow."""
    similar, stationary = walk(pieces(n_pieces))
    values, vectors = found(pieces(n_pieces))
    true, basis = np.linalg.eigh(similar - np.outer(stationary, stationary))
    assert values == pytest.approx(true[::-1][:MOST_COORDINATES], abs=1e-4)
    assert vectors.T @ vectors == pytest.approx(np.eye(MOST_COORDINATES), abs=1e-9)
    leading = basis[:, ::-1][:, :MOST_COORDINATES]
    assert np.linalg.norm(leading.T @ vectors, axis=0) == pytest.approx(1.0, abs=1e-3)


def test_a_graph_in_more_pieces_than_modes_has_none():
    assert found(pieces(MOST_COORDINATES)) is not None
    assert found(pieces(MOST_COORDINATES + 1)) is None
