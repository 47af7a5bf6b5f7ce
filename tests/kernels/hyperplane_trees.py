"""Trees of hyperplanes as arrays, and rows for them."""

import numpy as np

from distsvc.kernels.hyperplane import bandwidth_decays, learn
from tests import reference

NEVER = 2**62
DECAYS = np.empty(30)
bandwidth_decays(DECAYS)
STATE = ("means", "V", "b", "variances", "visits")
SETTINGS = {
    "default": {},
    "published": {"alpha": 0.1, "clip": np.inf},
    "forgetting": {"most_visits": 20},
    "narrow": {"bandwidth": 0.5, "penalty": 3.0},
    "through the mean": {"alpha": 0.0},
    "drawn to the mean": {"alpha": 0.0, "penalty": 1.0, "clip": np.inf},
}


class Tree:
    """The arrays of a complete tree that has seen nothing; node k starts along feature k mod d."""

    def __init__(self, nodes, d):
        self.means, self.V = np.zeros((nodes, d), np.float32), np.zeros((nodes, d), np.float32)
        self.V[np.arange(nodes), np.arange(nodes) % d] = 1.0
        self.b, self.variances = np.zeros(nodes), np.zeros(nodes)
        self.visits = np.zeros(nodes, np.int64)

    arrays = property(lambda self: [getattr(self, name) for name in STATE])
    norms = property(lambda self: np.linalg.norm(self.V[: len(self.b) // 2].astype(float), axis=1))

    def feed(self, X, form=learn, **settings):
        values = {
            "alpha": 0.5,
            "penalty": 10.0,
            "bandwidth": 1.0,
            "most_visits": NEVER,
            "clip": 5.0,
        }
        values |= settings
        known = () if form is reference.learn else (DECAYS,)
        return form(X, *self.arrays, *values.values(), *known)

    def twin(self):
        """A copy in float64."""
        twin = Tree(*self.V.shape)
        for name, array in zip(STATE, self.arrays, strict=True):
            setattr(twin, name, array.astype(np.int64 if name == "visits" else np.float64))
        return twin

    def dump(self):
        return b"".join(array.tobytes() for array in self.arrays)


def assert_close(tree, twin, tolerance):
    np.testing.assert_array_equal(tree.visits, twin.visits)
    for name in STATE[:4]:
        found, slow = getattr(tree, name), getattr(twin, name)
        np.testing.assert_allclose(found, slow, rtol=tolerance, atol=tolerance, err_msg=name)


def one_node(d=2, v=(1.0, 0.0), mean=0.0, b=0.0, variance=0.0, visits=0):
    """A hyperplane and two bottom nodes."""
    tree = Tree(3, d)
    tree.V[0], tree.means[0] = v, mean
    tree.b[0], tree.variances[0], tree.visits[0] = b, variance, visits
    return tree


def rows(n, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def two_clusters(n, d, seed, apart=6.0, along=None):
    """Rows of two round clusters on a line through the origin, and which one each is of."""
    rng = np.random.default_rng(seed)
    along = np.eye(d)[0] if along is None else np.asarray(along) / np.linalg.norm(along)
    cluster = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) + apart * (cluster[:, None] - 0.5) * along
    return X.astype(np.float32), cluster
