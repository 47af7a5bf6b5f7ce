import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_moons

from distsvc.models.graph.coordinates import (
    FEWEST_POINTS,
    GRAPH_NEIGHBOURS,
    MOST_COORDINATES,
    RESTARTS,
    SCALED_BY,
    NoGraphReason,
    diffusion_coordinates,
    neighbour_graph,
    slowest_modes,
)
from tests.normal_rows import normal


def dense_graph(X):
    """Edge weights, computed from all distances."""
    wide = X.astype(float)
    distances = np.sqrt(np.square(wide[:, None] - wide).sum(axis=2))
    near = np.argsort(distances, axis=1, kind="stable")[:, 1 : GRAPH_NEIGHBOURS + 1]
    scales = np.sort(distances, axis=1)[:, SCALED_BY]
    weights = np.zeros_like(distances)
    for i, numbers in enumerate(near):
        for j in numbers:
            weights[i, j] = np.exp(-(distances[i, j] ** 2) / (scales[i] * scales[j]))
            weights[j, i] = max(weights[j, i], weights[i, j])
    return weights


def dense_coordinates(X):
    """Coordinates, computed from all eigenvectors of the walk with restarts."""
    weights = dense_graph(X)
    degrees = weights.sum(axis=1)
    stationary = degrees / degrees.sum()
    walk = (1.0 - RESTARTS) * weights / degrees[:, None] + RESTARTS * stationary
    values, vectors = np.linalg.eig(walk)
    order = np.argsort(-values.real)[1 : MOST_COORDINATES + 1]
    values, vectors = values.real[order], vectors.real[:, order]
    vectors /= np.sqrt((stationary[:, None] * vectors**2).sum(axis=0))
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), range(MOST_COORDINATES)])
    return vectors * np.sqrt(values / (1.0 - values))


def test_edge_weights_equal_those_from_all_distances():
    X = normal(200, 4)
    assert neighbour_graph(X).toarray() == pytest.approx(dense_graph(X), abs=1e-5)


def test_coordinates_equal_those_from_all_eigenvectors():
    X = normal(200, 4)
    found = diffusion_coordinates(X)
    assert found.dtype == np.float32
    assert found == pytest.approx(dense_coordinates(X), abs=5e-3)


def test_the_first_coordinate_separates_two_moons():
    X, y = make_moons(600, noise=0.05, random_state=0)
    first = diffusion_coordinates(X.astype(np.float32))[:, 0]
    assert first[y == 0].min() > first[y == 1].max() or first[y == 0].max() < first[y == 1].min()


def test_pieces_of_a_graph_lie_apart():
    X = np.concatenate([normal(200, 4) + 100.0 * k for k in range(3)])
    assert connected_components(neighbour_graph(X))[0] == 3
    found = diffusion_coordinates(X).reshape(3, 200, -1)
    spread = np.linalg.norm(found - found.mean(axis=1, keepdims=True), axis=2).max()
    middles = found.mean(axis=1)
    apart = [np.linalg.norm(middles[i] - middles[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert min(apart) > spread


def test_coordinates_of_a_far_row_are_finite_and_near_its_neighbours():
    X = np.concatenate([normal(200, 4), [[1e6] * 4]]).astype(np.float32)
    found = diffusion_coordinates(X)
    assert np.isfinite(found).all()
    assert np.abs(found[-1]).max() <= np.abs(found[:-1]).max()


def test_a_lattice_has_no_coordinates():
    axes = np.meshgrid(*[np.arange(4.0)] * 5)
    lattice = np.column_stack([axis.ravel() for axis in axes]).astype(np.float32)
    assert diffusion_coordinates(lattice) is NoGraphReason.LATTICE
    moved = lattice + np.random.default_rng(0).normal(0.0, 0.1, lattice.shape)
    assert isinstance(diffusion_coordinates(moved.astype(np.float32)), np.ndarray)


def test_a_graph_in_too_many_pieces_has_no_coordinates():
    X = np.concatenate([normal(60, 4) + 100.0 * k for k in range(MOST_COORDINATES + 1)])
    assert isinstance(diffusion_coordinates(X[:-60]), np.ndarray)
    assert diffusion_coordinates(X) is NoGraphReason.PIECES


def test_few_points_have_no_coordinates():
    assert diffusion_coordinates(normal(FEWEST_POINTS - 1, 4)) is NoGraphReason.FEW
    assert diffusion_coordinates(normal(FEWEST_POINTS, 4)).shape == (
        FEWEST_POINTS,
        MOST_COORDINATES,
    )


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
def test_modes_equal_the_leading_eigenvectors(n_pieces):
    """Lanczos's method misses some of the twelve pieces, which are equally slow."""
    similar, stationary = walk(pieces(n_pieces))
    values, vectors = found(pieces(n_pieces))
    true, basis = np.linalg.eigh(similar - np.outer(stationary, stationary))
    assert values == pytest.approx(true[::-1][:MOST_COORDINATES], abs=1e-4)
    assert vectors.T @ vectors == pytest.approx(np.eye(MOST_COORDINATES), abs=1e-9)
    leading = basis[:, ::-1][:, :MOST_COORDINATES]
    assert np.linalg.norm(leading.T @ vectors, axis=0) == pytest.approx(1.0, abs=1e-3)


def test_a_graph_in_more_pieces_than_modes_has_no_modes():
    assert found(pieces(MOST_COORDINATES)) is not None
    assert found(pieces(MOST_COORDINATES + 1)) is None
