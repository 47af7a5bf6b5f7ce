"""Learning and routing of trees of hyperplanes."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from distsvc.kernels.hyperplanes import add_rows, bandwidth_decays, learn, path_shares, route
from tests import reference
from tests.normal_rows import normal

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


def two_clusters(n, d, seed, apart=6.0, along=None):
    """Rows of two round clusters on a line through the origin, and which one each is of."""
    rng = np.random.default_rng(seed)
    along = np.eye(d)[0] if along is None else np.asarray(along) / np.linalg.norm(along)
    cluster = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) + apart * (cluster[:, None] - 0.5) * along
    return X.astype(np.float32), cluster


# --- steps of `learn` beside those of its slow twin, or worked out by hand


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("d", [1, 2, 7])
@reference.forms(learn)
def test_twin_learn_row_by_row(form, d, settings):
    # both start again from the same nodes at every row, so that nothing adds up
    X, _ = two_clusters(150, d, seed=d)
    tree = Tree(7, d)
    for x in X:
        twin = tree.twin()
        (gap,) = twin.feed(x[None], reference.learn, **settings)
        tree.feed(x[None], form, **settings)
        assert gap > 2e-5, "the test's data leave the path to rounding"
        assert_close(tree, twin, 3e-6)


@pytest.mark.parametrize("d", [2, 784])
@reference.forms(learn)
def test_twin_a_direction_without_variance_becomes_the_row_s(form, d):
    X = normal(20, d)
    X[:, 0] = 0.0
    tree = Tree(3, d)
    tree.feed(X[:1], form)
    direction = X[0].astype(np.float64) / np.linalg.norm(X[0].astype(np.float64))
    np.testing.assert_allclose(tree.V[0], direction, atol=3e-7)
    assert tree.b[0] == tree.variances[0] == 0.0
    assert tree.visits.tolist() == [1, 0, 1]  # p > 0 = b
    for x in X[1:]:
        twin = tree.twin()
        assert twin.feed(x[None], reference.learn)[0] > 1e-5
        tree.feed(x[None], form)
        assert_close(tree, twin, 3e-6)
    assert tree.variances[0] > 0.0


def test_decays_that_are_looked_up_are_those_that_are_computed():
    np.testing.assert_allclose(DECAYS, np.arange(1.0, 31.0) ** -0.4, rtol=1e-14)
    reference.plain(bandwidth_decays)(found := np.empty(30))
    np.testing.assert_allclose(found, DECAYS, rtol=1e-14)
    dumps = set()
    for known in (DECAYS[:1], DECAYS, np.empty(0)):
        tree = Tree(15, 3)
        learn(normal(200, 3), *tree.arrays, 0.5, 10.0, 1.0, NEVER, 5.0, known)
        dumps.add(tree.dump())
    assert len(dumps) == 1


# --- rows that cancel their normal: v - c (x - mean) is nearly 0


def cancelling(remains, x=20.0):
    """A node with one feature, and a row whose step leaves this share of its normal.

    p = x / 2 and h = 1; the step on v is u exp(-u^2 / 2) / 2 for b = p + u.
    """
    p = x / 2
    u = brentq(lambda u: p * u * math.exp(-u * u / 2) / 2 - (1 - remains), 0.0, 1.0, xtol=1e-15)
    bandwidth = 2**0.2 / math.sqrt(p * p / 2)
    row = np.array([[x]], np.float32)
    return one_node(1, v=1.0, b=p + u), row, {"penalty": 0.0, "bandwidth": bandwidth}


@pytest.mark.parametrize("remains", [0.5, 0.1, 0.01, 0.005, -0.005, -0.01, -0.1, -0.5])
def test_a_row_that_cancels_its_normal_goes_to_its_side(remains):
    tree, row, settings = cancelling(remains)
    twin = tree.twin()
    tree.feed(row, clip=0.5, **settings)  # b = 0.5 alpha sigma = 1.8; p is now 10 or -10
    assert twin.feed(row, reference.learn, clip=0.5, **settings)[0] > 5.0
    assert_close(tree, twin, 1e-3)


def test_a_normal_is_never_lost():
    for remains in np.linspace(-1e-7, 1e-7, 41):
        tree, row, settings = cancelling(remains, x=32.0)
        tree.feed(row, **settings)
        np.testing.assert_allclose(tree.norms, 1.0, atol=1e-5)


@pytest.mark.parametrize("most_visits", [NEVER, 1000, 1024])
def test_what_rounding_adds_to_a_normal_is_taken_away(most_visits):
    # rows at the mean do not turn v, so that only its renormalisation changes it
    tree = one_node(v=(1.0001, 0.0), variance=1.0)
    tree.feed(np.zeros((3000, 2), np.float32), most_visits=most_visits)
    np.testing.assert_allclose(tree.norms, 1.0, atol=1e-6)


# --- many rows


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("d", [1, 3, 784])
def test_the_cut_into_blocks_does_not_matter(d, settings):
    X = normal(1500, d)
    whole, cut, again = Tree(15, d), Tree(15, d), Tree(15, d)
    whole.feed(X, **settings)
    for part in np.split(X, [0, 1, 2, 77, 1030, 1499]):
        cut.feed(part, **settings)
    assert cut.dump() == whole.dump()
    again.feed(X, **settings)
    assert again.dump() == whole.dump()


def test_zeros_change_nothing_but_visits():
    tree, new = Tree(7, 3), Tree(7, 3)
    tree.feed(np.zeros((500, 3), np.float32))
    for name in STATE[:4]:
        np.testing.assert_array_equal(getattr(tree, name), getattr(new, name))
    assert tree.visits.tolist() == [500, 0, 500, 0, 0, 0, 500]  # p = b = 0 is not below


DRIFT = 1024 * 2.0**-24
"""Error of a unit vector's length: one rounding of float32 a row until it is normalised again."""


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("value", [[2.0, 0.0], [0.0, -3.0], [1e-3, 1e3]])
def test_rows_all_equal(value, settings):
    X = np.tile(np.float32(value), (3000, 1))
    tree = Tree(7, 2)
    for part in np.split(X, 30):
        tree.feed(part, **settings)
        assert all(np.isfinite(array).all() for array in tree.arrays)
        np.testing.assert_allclose(tree.norms, 1.0, atol=DRIFT)
    t = min(settings.get("most_visits", NEVER), 3000)
    np.testing.assert_allclose(tree.means[0], np.float32(value), rtol=2 / t, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-25, 1e-20, 1e-15, 1e-9, 1e9, 1e18])
def test_rows_of_any_size_leave_unit_vectors(scale):
    for d in (1, 3):
        tree = Tree(7, d)
        tree.feed(normal(500, d) * np.float32(scale))
        assert all(np.isfinite(array).all() for array in tree.arrays)
        np.testing.assert_allclose(tree.norms, 1.0, atol=1e-5)


# --- routing rows


def complete_children(nodes):
    children = np.full((nodes, 2), -1, np.int32)
    inner = np.arange(nodes // 2)
    children[inner] = np.column_stack([2 * inner + 1, 2 * inner + 2])
    return children


@pytest.mark.parametrize("d", [1, 2, 784])
@reference.forms(route)
def test_twin_route(form, d):
    X, tree = normal(40, d), Tree(15, d)
    tree.feed(normal(300, d, seed=1))
    rng = np.random.default_rng(2)
    arguments = tree.V, rng.normal(size=15) * 0.3, rng.uniform(0.5, 2.0, 15), complete_children(15)
    ends, margins = form(X, *arguments)
    slow_ends, slow_margins = reference.route(X, *arguments)
    assert slow_margins.min() > 1e-5
    np.testing.assert_array_equal(ends, slow_ends)
    np.testing.assert_allclose(margins, slow_margins, atol=3e-6, rtol=1e-6)
    assert (ends.dtype, margins.dtype) == (np.int32, np.float32)
    assert len(set(ends.tolist())) > 3


UNEVEN = (
    np.array([[1, 0], [0, 0], [0, 1], [0, 0], [0, 0]], np.float32),
    np.array([0.0, 0.0, 1.0, 0.0, 0.0]),
    np.array([2.0, 1.0, 0.5, 1.0, 1.0]),
    np.array([[1, 2], [-1, -1], [4, 3], [-1, -1], [-1, -1]], np.int32),
)


@pytest.mark.parametrize(
    ("x", "end", "margin"),
    [
        ((-3.0, 1.0), 1, 1.5),  # the second hyperplane, which it would lie on, is not on its path
        ((4.0, 0.5), 4, 1.0),
        ((1.0, -9.0), 4, 0.5),
        ((1.0, 1.125), 3, 0.25),
        ((0.0, 5.0), 3, 0.0),  # ties go to the second child
        ((8.0, 1.0), 3, 0.0),
    ],
)
@reference.forms(route)
def test_twin_route_by_hand(form, x, end, margin):
    X = np.array([x], np.float32)
    for found in (form(X, *UNEVEN), reference.route(X, *UNEVEN)):
        assert found[0].tolist() == [end]
        assert found[1].tolist() == [margin]


# --- sums of the rows of every node


@pytest.mark.parametrize("d", [1, 2, 784])
@reference.forms(add_rows)
def test_twin_add_rows(form, d):
    X, ends = normal(60, d), np.random.default_rng(1).integers(0, 5, 60).astype(np.int32)
    rng = np.random.default_rng(2)
    held = rng.integers(0, 9, 6).astype(float), rng.normal(size=(6, d)), rng.uniform(size=6)
    found, slow, numpy = ([array.copy() for array in held] for _ in range(3))
    form(X, ends, *found)
    reference.add_rows(X, ends, *slow)
    for total, rows_of in zip(
        numpy, (1.0, np.float64(X), (X.astype(float) ** 2).sum(1)), strict=True
    ):
        np.add.at(total, ends, rows_of)
    for expected in (slow, numpy):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found[2], expected[2], rtol=1e-6)
    for total, before in zip(found, held, strict=True):
        assert (total[5] == before[5]).all()


def test_sums_of_many_rows_are_float64():
    X, ends = np.full((300_000, 1), 0.1, np.float32), np.zeros(300_000, np.int32)
    totals = np.zeros(1), np.zeros((1, 1)), np.zeros(1)
    add_rows(X, ends, *totals)
    assert totals[0][0] == 300_000
    assert totals[1][0, 0] == pytest.approx(300_000 * float(np.float32(0.1)), rel=1e-10)
    assert totals[2][0] == pytest.approx(300_000 * float(np.float32(0.1)) ** 2, rel=1e-7)


def tree_shares(x, node, tree):
    """Return the share of each label below a node, by recursion."""
    V, thresholds, widths, children, labels = tree
    if children[node, 0] < 0:
        return {int(labels[node]): 1.0}
    below = 1.0 / (1.0 + np.exp((V[node] @ x - thresholds[node]) / widths[node]))
    found = {}
    for child, share in zip(children[node], (below, 1.0 - below), strict=True):
        for label, part in tree_shares(x, child, tree).items():
            found[label] = found.get(label, 0.0) + share * part
    return found


def test_paths():
    children = np.array([[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]], np.int32)
    labels = np.array([-1, 2, -1, 0, 1], np.int32)
    random = np.random.default_rng(0)
    X, V = (random.normal(size=(n, 3)).astype(np.float32) for n in (200, 5))
    tree = V, random.normal(size=5), random.uniform(0.1, 2.0, 5), children, labels
    found = np.zeros((len(X), 3), np.float32)
    path_shares(X, *tree, found)
    expected = [[tree_shares(x, 0, tree)[c] for c in range(3)] for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
