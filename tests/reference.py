"""Slow, obvious NumPy twins of the kernels, in float64, one row or one vector at a time."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize, nnls
from scipy.sparse.csgraph import connected_components


def plain(kernel):
    """Return the kernel as plain Python, which it is already where nothing is compiled."""
    return getattr(kernel, "py_func", kernel)


def forms(kernel):
    """Run a test with the kernel as compiled and as plain Python."""
    both = [kernel, plain(kernel)]
    return pytest.mark.parametrize("form", both, ids=["compiled", "plain"])


def gaussian(A, B, gamma):
    """K(a, b) = exp(-gamma ||a - b||^2) of all rows of A (n, d) and B (m, d)."""
    A, B = np.asarray(A, np.float64), np.asarray(B, np.float64)
    return np.exp(-gamma * ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


def weighted_sums(X, S, a, gamma):
    return gaussian(X, np.transpose(S), gamma) @ np.asarray(a, np.float64)


def squared_norm(V, a, gamma):
    """||sum_j a_j phi(v_j)||^2."""
    a = np.asarray(a, np.float64)
    return float(a @ gaussian(V, V, gamma) @ a)


def distance(V, a, W, b, gamma):
    """||sum_j a_j phi(v_j) - sum_j b_j phi(w_j)||."""
    together = np.concatenate([np.asarray(V, np.float64), np.asarray(W, np.float64)])
    weights = np.concatenate([np.asarray(a, np.float64), -np.asarray(b, np.float64)])
    return np.sqrt(max(squared_norm(together, weights, gamma), 0.0))


def random_below(state, n):
    """Marsaglia's 64-bit xorshift (13, 7, 17); returns the new state and a number below n."""
    state ^= state << 13 & (1 << 64) - 1
    state ^= state >> 7
    state ^= state << 17 & (1 << 64) - 1
    return state, state % n


class Descent:
    """Algorithm 2 of the paper as printed: all coefficients shrink by (t - 1) / t at every step.

    They are fractions, so that equal ones are equal. The vector just added is never removed, and of
    several smallest ones the oldest goes; its place is taken by the one just added.
    """

    def __init__(self, gamma, C, budget, strategy, k=5, random=1):
        self.gamma, self.C, self.budget = gamma, Fraction(C), budget
        self.strategy, self.k, self.random = strategy, k, random
        self.vectors, self.alpha, self.born = [], [], []
        self.t = self.hits = self.maintained = 0

    def step(self, x):
        """Do one step; return ||w_{t+1} - w_t||, without what maintenance changes."""
        self.t += 1
        before = list(self.vectors), [float(a) for a in self.alpha]
        value = gaussian([x], self.vectors, self.gamma)[0] @ before[1] if self.vectors else 0.0
        self.alpha = [Fraction(self.t - 1, self.t) * a for a in self.alpha]
        if value < 1:
            self.hits += 1
            same = [j for j, v in enumerate(self.vectors) if (v == x).all()]
            if same:
                self.alpha[same[0]] += self.C / self.t
            else:
                self.vectors.append(x)
                self.alpha.append(self.C / self.t)
                self.born.append(self.t)
        after = self.vectors, [float(a) for a in self.alpha]
        norm = distance(*after, *before, self.gamma) if before[0] else float(self.C) * (value < 1)
        if len(self.vectors) > self.budget:
            self.maintain()
        return norm

    def counts(self):
        return [float(a * self.t / self.C) for a in self.alpha]

    def maintain(self):
        self.maintained += 1
        last = len(self.vectors) - 1
        counts = np.float32(self.counts())
        p = min(range(last), key=lambda j: (counts[j], self.born[j]))
        if self.strategy == "merge":
            q, z, weight = best_merge(self.vectors, self.counts(), p, self.gamma)
            self.vectors[q], self.alpha[q] = z, Fraction(weight) * self.C / self.t
        elif self.strategy != "removal":
            chosen = self.nearest(p) if self.strategy == "project-nearest" else self.others(p)
            shares = cone_weights(self.vectors, p, chosen, self.gamma)
            for j, share in zip(chosen, shares, strict=True):
                self.alpha[j] += self.alpha[p] * Fraction(share)
        for column in (self.vectors, self.alpha, self.born):
            column[p] = column[last]
            del column[last]

    def nearest(self, p):
        others = [j for j in range(len(self.vectors)) if j != p]
        far = gaussian(self.vectors, [self.vectors[p]], self.gamma)[:, 0]
        return sorted(others, key=lambda j: -far[j])[: self.k]

    def others(self, p):
        n, chosen = len(self.vectors), []
        while len(chosen) < min(self.k, n - 1):
            self.random, j = random_below(self.random, n)
            if j != p and j not in chosen:
                chosen.append(j)
        return chosen


def cone_weights(vectors, p, chosen, gamma):
    """argmin ||phi(v_p) - sum_i d_i phi(v_i)||^2 over d >= 0, i in chosen."""
    V = [vectors[j] for j in chosen]
    L = np.linalg.cholesky(gaussian(V, V, gamma) + 1e-12 * np.eye(len(V)))
    return nnls(L.T, np.linalg.solve(L, gaussian(V, [vectors[p]], gamma)[:, 0]))[0]


def merged_weight(n_p, n_q, k, h):
    """Best weight of phi(h v_p + (1 - h) v_q) for n_p phi(v_p) + n_q phi(v_q), k = K(v_p, v_q)."""
    return n_p * k ** ((1 - h) ** 2) + n_q * k ** (h**2)


def merge_loss(n_p, n_q, k, h):
    """||n_p phi(v_p) + n_q phi(v_q) - weight phi(z)||^2."""
    return n_p**2 + n_q**2 + 2 * n_p * n_q * k - merged_weight(n_p, n_q, k, h) ** 2


def best_merge(vectors, counts, p, gamma):
    """Return partner, merged vector and weight: every partner is tried at two values of h."""

    def starts(q):
        k = gaussian([vectors[p]], [vectors[q]], gamma)[0, 0]
        h = counts[p] / (counts[p] + counts[q])
        return [(merge_loss(counts[p], counts[q], k, h), h, k) for h in (h, 0.0)]

    q = min((q for q in range(len(vectors)) if q != p), key=lambda q: min(starts(q))[0])
    _, h, k = min(starts(q))
    for _ in range(5):
        from_p = counts[p] * k ** ((1 - h) ** 2)
        h = from_p / merged_weight(counts[p], counts[q], k, h)
    z = h * np.float64(vectors[p]) + (1 - h) * np.float64(vectors[q])
    return q, z, merged_weight(counts[p], counts[q], k, h)


def dual_optimum(K, bound):
    """argmax sum a - a'Ka / 2 over 0 <= a <= bound, by a general optimiser."""
    n = len(K)
    return minimize(
        lambda a: (a @ K @ a / 2 - a.sum(), K @ a - 1.0),
        np.full(n, bound / 2),
        jac=True,
        bounds=[(0.0, bound)] * n,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50},
    ).x


def mean_shift(x, S, a, gamma):
    """P(x) = sum a_j K_j s_j / sum a_j K_j, with exponents relative to the nearest vector's."""
    V = np.transpose(S).astype(np.float64)
    squared = ((V - x) ** 2).sum(axis=1)
    weights = np.float64(a) * np.exp(-gamma * (squared - squared.min()))
    return weights @ V / weights.sum()


def climb(X, S, a, gamma, tolerance, max_iter):
    ends = np.array(X, np.float64)
    for i in range(len(ends)):
        for _ in range(max_iter):
            x = mean_shift(ends[i], S, a, gamma)
            step = np.linalg.norm(x - ends[i])
            ends[i] = x
            if step <= tolerance / np.sqrt(2 * gamma):
                break
    return ends


def nearest_point(X, points):
    return np.array([((np.float64(points) - x) ** 2).sum(axis=1).argmin() for x in np.float64(X)])


def lowest_on_segments(E, pairs, S, a, gamma, samples):
    t = np.arange(1, samples + 1)[:, None] / (samples + 1)
    E = np.float64(E)
    return np.array([weighted_sums(E[i] + t * (E[j] - E[i]), S, a, gamma).min() for i, j in pairs])


def column_sums(X, shift):
    """Exact sums of x - shift and (x - shift)^2 of the values that are not NaN, as fractions."""
    first, second = [], []
    for column, s in zip(np.transpose(X).tolist(), shift.tolist(), strict=True):
        e = [x - s for x in column if x == x]
        first.append(sum(map(Fraction, e), Fraction(0)))
        second.append(sum((Fraction(v * v) for v in e), Fraction(0)))
    return first, second


def scale_rows(X, centre, scale, fill, origin):
    return ((np.where(np.isnan(X), fill, X) - centre) / scale - origin).astype(np.float32)


def learn(X, means, V, b, variances, visits, alpha, penalty, bandwidth, most_visits, clip):
    """Update a tree of hyperplanes; return every row's least |v.(x - mean) - b| on its path.

    A row's path is settled only as far as its hyperplanes are farther away than rounding.
    """
    d, gaps = len(X[0]), []
    for x in np.float64(X):
        node, gap = 0, np.inf
        while 2 * node + 2 < len(visits):
            visits[node] += 1
            t = min(visits[node], most_visits)
            means[node] = (t * means[node] + x) / (t + 1)
            e = x - means[node]
            p = V[node] @ e
            variances[node] = (t * variances[node] + p**2) / (t + 1)
            sigma = np.sqrt(variances[node])
            h = bandwidth * sigma * (t + 1) ** -0.2
            beyond = max(abs(b[node]) - alpha * sigma, 0.0)
            turn, move = np.zeros(d), -2 * penalty * beyond * np.sign(b[node])
            if h > 0.0:
                g = (b[node] - p) / h**3 * np.exp(-((b[node] - p) ** 2) / (2 * h**2))
                turn, move = -np.sqrt(d) * g * e, move + g
            elif e.any():
                V[node] = e
            V[node] += turn / (t + 1)
            V[node] /= np.linalg.norm(V[node])
            b[node] += move / (t + 1)
            if clip < np.inf:
                b[node] = np.clip(b[node], -clip * alpha * sigma, clip * alpha * sigma)
            gap = min(gap, abs(V[node] @ e - b[node]))
            node = 2 * node + (1 if V[node] @ e < b[node] else 2)
        visits[node] += 1
        t = min(visits[node], most_visits)
        means[node] = (t * means[node] + x) / (t + 1)
        gaps.append(gap)
    return np.array(gaps)


def route(X, V, thresholds, spreads, children):
    ends, margins = [], []
    for x in np.float64(X):
        node, distances = 0, [np.inf]
        while children[node][0] >= 0:
            gap = np.float64(V[node]) @ x - thresholds[node]
            distances.append(abs(gap) / spreads[node])
            node = children[node][0 if gap < 0.0 else 1]
        ends.append(node)
        margins.append(min(distances))
    return np.array(ends), np.array(margins)


def add_rows(X, ends, counts, sums, squares):
    for x, node in zip(np.float64(X), ends, strict=True):
        counts[node] += 1
        sums[node] += x
        squares[node] += (x**2).sum()


def dual_objective(X, alpha, p, scale):
    """1/2 scale a'XX'a + p'a."""
    u = X.T @ alpha
    return 0.5 * scale * u @ u + p @ alpha


def descend_groups(X, alpha, p, scale, order, size, least=0.0):
    """Move the most violating pair of each group; u from scratch every time. Returns the cost."""
    alpha, cost = alpha.copy(), 0
    for begin in range(0, len(order), size):
        group = order[begin : begin + size]
        ups = [i for i in group if alpha[i] < 1]
        downs = [i for i in group if alpha[i] > 0]
        if not ups or not downs:
            continue
        G = scale * X @ (X.T @ alpha) + p
        cost += len(group)
        i, j = min(ups, key=lambda i: G[i]), max(downs, key=lambda j: G[j])
        if i == j or not G[j] - G[i] > least:
            continue
        curvature = scale * ((X[i] - X[j]) ** 2).sum()
        most = min(1 - alpha[i], alpha[j])
        step = min((G[j] - G[i]) / curvature, most) if curvature > 1e-12 else most
        alpha[i], alpha[j] = alpha[i] + step, alpha[j] - step
        cost += 3
    return alpha, cost


def violating_pairs(G, alpha, rows, limit):
    """The pairs of eq. (3.18) as (i_1, j_1, i_2, ...), while they violate."""
    ups = sorted((i for i in rows if alpha[i] < 1), key=lambda i: (G[i], i))[:limit]
    downs = sorted((j for j in rows if alpha[j] > 0), key=lambda j: (-G[j], j))[:limit]
    pairs = [(i, j) for i, j in zip(ups, downs, strict=False) if G[i] < G[j]]
    return [row for pair in pairs for row in pair]


def one_class_optimum(X, scale, p, total):
    """The least objective, by a general solver: fewer than 50 rows or so."""
    n = len(X)
    found = minimize(
        lambda a: dual_objective(X, a, p, scale),
        np.full(n, total / n),
        jac=lambda a: scale * X @ (X.T @ a) + p,
        bounds=[(0.0, 1.0)] * n,
        constraints={"type": "eq", "fun": lambda a: a.sum() - total},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return found.fun


def level_components(heights, pairs, edge_heights, level):
    """Components of the graph {>= level}, as sets of vertices in the order of their least ones."""
    alive = [i for i in range(len(heights)) if heights[i] >= level]
    component = {i: {i} for i in alive}
    for (i, j), height in zip(np.asarray(pairs).tolist(), edge_heights, strict=True):
        if height >= level and component[i] is not component[j]:
            joined = component[i] | component[j]
            component |= dict.fromkeys(joined, joined)
    return [component[i] for i in alive if min(component[i]) == i]


def level_tree(heights, mass, pairs, edge_heights, least_mass):
    """Branches as (birth, death, peak, mass, parent's peak), by sweeping the level; all distinct.

    The parent is named by its peak; the root's death is minus infinity, its parent None.
    """
    levels = sorted({*heights.tolist(), *edge_heights.tolist()}, reverse=True)
    live, ended = [], []
    for level in levels:
        for vertices in level_components(heights, pairs, edge_heights, level):
            weight = sum(mass[i] for i in vertices)
            inside = sorted(
                (b for b in live if b["vertices"] <= vertices),
                key=lambda b: (b["birth"], heights[b["peak"]]),
            )
            if not inside and (weight >= least_mass or len(vertices) == len(heights)):
                inside = [{"birth": level, "vertices": vertices, "peak": None, "mass": 0.0}]
                live += inside
            for dead in inside[:-1]:
                ended.append((dead, level, inside[-1]))
                live.remove(dead)
            for branch in inside[-1:]:
                branch["vertices"], branch["mass"] = vertices, weight
                branch["peak"] = max(vertices, key=lambda i: heights[i])
    (root,) = live
    found = [(b["birth"], death, b["peak"], b["mass"], to["peak"]) for b, death, to in ended]
    return [*found, (root["birth"], -np.inf, root["peak"], root["mass"], None)]


def forest_parts(n, edges, kept):
    """Components numbered by their least vertices."""
    sets = level_components(np.ones(n), edges, np.where(kept, 1.0, 0.0), 1.0)
    return [next(c for c, members in enumerate(sets) if i in members) for i in range(n)]


def add_differences(X, peaks, saddles, gamma):
    """Sums (4, s) of D, D^2, rows on neither point and K(peak), in whole units of 2^-30."""
    sums = [[0, 0, 0, 0] for _ in np.transpose(peaks)]
    for x in np.float64(X):
        for total, p, q in zip(sums, np.transpose(peaks), np.transpose(saddles), strict=True):
            if (x == p).all() or (x == q).all():
                continue
            peak = gaussian([x], [p], gamma)[0, 0]
            d = peak - gaussian([x], [q], gamma)[0, 0]
            total[0] += round(d * 2**30)
            total[1] += round(d * d * 2**30)
            total[2] += 1
            total[3] += round(peak * 2**30)
    return np.transpose(sums)


def group_sums(X, S, a, ends, gamma):
    """Weighted kernel sum (n, k) of every group of vectors at every row."""
    starts = [0, *ends[:-1]]
    return np.column_stack(
        [weighted_sums(X, S[:, i:j], a[i:j], gamma) for i, j in zip(starts, ends, strict=True)]
    )


def rand_index(p, q):
    """Hubert and Arabie's adjusted Rand index, by looking at every pair of rows."""
    p, q = np.asarray(p), np.asarray(q)
    above = np.triu_indices(len(p), 1)
    same_p, same_q = (p[:, None] == p)[above], (q[:, None] == q)[above]
    expected = same_p.sum() * same_q.sum() / len(above[0])
    most = (same_p.sum() + same_q.sum()) / 2
    return 1.0 if most == expected else ((same_p & same_q).sum() - expected) / (most - expected)


def complete_graph(V, S, a, gamma, samples, level):
    """The component of every vertex, of the graph of all pairs whose segment is inside."""
    n = len(V)
    pairs = np.array([(i, j) for i in range(n) for j in range(i)]).reshape(-1, 2)
    inside = pairs[lowest_on_segments(V, pairs, S, a, gamma, samples) >= level]
    adjacent = np.zeros((n, n))
    adjacent[tuple(inside.T)] = 1
    return connected_components(adjacent, directed=False)[1]


def ball_centres(X, radius):
    remaining, centres = list(range(len(X))), []
    while remaining:
        centres.append(remaining[0])
        far = np.linalg.norm(np.float64(X[remaining]) - X[remaining[0]], axis=1)
        remaining = [i for i, r in zip(remaining, far, strict=True) if r >= radius]
    return np.array(centres)


def merge_neighbours(P, arrived, radius):
    """The places of all points after a merge; points that were taken along are moved in deed."""
    place, arrived = np.arange(len(P)), np.array(arrived)
    gone = np.zeros(len(P), bool)
    for i in range(len(P)):
        if gone[i]:
            continue
        far = np.linalg.norm(np.float64(P) - P[i], axis=1)
        near = [j for j in np.argsort(far, kind="stable") if far[j] < radius and j != i]
        near = [j for j in near if not gone[j]]
        there = [j for j in near if arrived[j]]
        moved, to = ([i], there[0]) if there and not arrived[i] else (near, i)
        for j in moved:
            gone[j] = True
            place[place == place[j]] = to
    return place


def climb_together(X, S, a, gamma, radius, burst, arrived_within, tolerance):
    """FSVC's climb with every point moved in deed, those that are together at every step."""
    P, arrived = np.array(X, np.float64), np.zeros(len(X), bool)
    while not arrived.all():
        before = P.copy()
        P[~arrived] = climb(P[~arrived], S, a, gamma, tolerance, burst)
        arrived |= np.linalg.norm(P - before, axis=1) < arrived_within / np.sqrt(2 * gamma)
        if arrived.any():
            place = merge_neighbours(P, arrived, radius)
            P, arrived = P[place], arrived[place]
    return P


class Features:
    """BICO's tree: nested lists of (reference, rows, children), costs computed from the rows.

    The children of a node are kept latest first.
    """

    def __init__(self, size):
        self.size, self.threshold, self.children = size, 0.0, []

    @staticmethod
    def cost(rows):
        return ((np.array(rows) - np.mean(rows, axis=0)) ** 2).sum()

    @staticmethod
    def nearest(x, nodes):
        gaps = [((node[0] - x) ** 2).sum() for node in nodes]
        return (nodes[int(np.argmin(gaps))], min(gaps)) if gaps else (None, np.inf)

    def all(self, nodes=None):
        nodes = self.children if nodes is None else nodes
        return [f for node in nodes for f in [node, *self.all(node[2])]]

    def insert(self, x):
        children, radius = self.children, self.threshold / 16
        while True:
            near, gap = self.nearest(x, children)
            if near is None or gap > radius:
                children.insert(0, (x, [x], []))
                break
            if self.cost([*near[1], x]) <= self.threshold:
                near[1].append(x)
                break
            children, radius = near[2], radius / 2
        while len(self.all()) > self.size:
            references = np.array([node[0] for node in self.all()])
            gaps = ((references[:, None] - references[None]) ** 2).sum(axis=2)
            least = gaps[np.triu_indices(len(gaps), 1)].min()
            self.threshold = 2 * self.threshold if self.threshold else (16 + 16e-9) * least
            self.rebuild()

    def rebuild(self):
        nodes, self.children = self.children, []
        for node in nodes:
            near, gap = self.nearest(node[0], self.children)
            inside = near is not None and gap <= self.threshold / 16
            (near[2] if inside else self.children).insert(0, node)
        waiting = list(self.children)
        while waiting:
            node = waiting.pop()
            queue, node[2][:] = list(node[2]), []
            while queue:
                child = queue.pop(0)
                if self.cost(node[1] + child[1]) <= self.threshold:
                    node[1].extend(child[1])
                    queue = child[2] + queue
                else:
                    node[2].insert(0, child)
                    waiting.append(child)


def stream_rows(X, directions, thresholds, children, amnesia):
    """A fixed tree's leaves learn from all rows; {leaf: (mean, direction, projections)}."""
    learned = {}
    for x in np.asarray(X, np.float64):
        node = 0
        while children[node][0] >= 0:
            node = children[node][0 if directions[node] @ x <= thresholds[node] else 1]
        rows, u, places = learned.get(node, ([], np.zeros(len(x)), []))
        rows = [*rows, x]
        gap = x - np.mean(rows, axis=0)
        rate = min((1 + amnesia) / len(rows), 0.5)
        length = np.linalg.norm(u)
        u = (1 - rate) * u + rate * gap * (gap @ u) / length if length else gap
        length = np.linalg.norm(u)
        learned[node] = rows, u, [*places, gap @ u / length if length else 0.0]
    return {node: (np.mean(r, axis=0), u, places) for node, (r, u, places) in learned.items()}


def counts_between(X, edges):
    """Values of every column at or above j of its edges, by j, and those that are missing."""
    counts = np.zeros((len(edges), len(edges[0]) + 2), np.int64)
    for k, column in enumerate(np.transpose(X)):
        for value in column:
            at_or_above = sum(bool(value >= edge) for edge in edges[k])
            counts[k, -1 if value != value else at_or_above] += 1
    return counts


def fnv_1a(text):
    """FNV-1a of some bytes, with 64 bits, in whole numbers without bounds."""
    found = 0xCBF29CE484222325
    for byte in text:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def stability_index(expected, found):
    """Population stability index of two lists of counts, half a row more in every bin in use."""
    pairs = [(p + 0.5, q + 0.5) for p, q in zip(expected, found, strict=True) if p or q]
    n, m = sum(p for p, _ in pairs), sum(q for _, q in pairs)
    return sum((q / m - p / n) * np.log((q / m) / (p / n)) for p, q in pairs)


def continued_ids(ids_before, next_id, overlap, match):
    """Return ids of the best of all ways to pair clusters, by trying them; a few clusters only."""
    k_before, k = np.shape(overlap)

    def jaccard(i, j):
        both = overlap[i][j]
        either = sum(overlap[i]) + sum(row[j] for row in overlap) - both
        return both / either if either else 0.0

    def best(j, free):
        """Return the largest sum for clusters j and above, and whom each goes on from."""
        if j == k:
            return 0.0, []
        found = [(best(j + 1, free)[0], [None, *best(j + 1, free)[1]])]
        for i in free:
            if jaccard(i, j) >= match:
                total, rest = best(j + 1, free - {i})
                found.append((total + jaccard(i, j), [i, *rest]))
        return max(found, key=lambda one: one[0])

    ids = []
    for i in best(0, frozenset(range(k_before)))[1]:
        ids.append(next_id if i is None else ids_before[i])
        next_id += i is None
    return ids, next_id


def printed_descent(X, gamma, C, budget, strategy, k, theta, draws, others, most=10**6):
    """Algorithm 2 of Pham, Le and Dang (2017) as printed; a dict of alpha by row number, and T.

    `draws` yields n_1, n_2, ...; `others` is the generator that chooses random vectors. Counts
    stand for alpha_i t / C, so that equal coefficients are equal. The oldest of several smallest
    goes.
    """
    X, counts, before = np.float64(X), {}, None

    def product(x):
        support = list(counts)
        kernel = np.exp(-gamma * ((X[support] - x) ** 2).sum(axis=1))
        return float(kernel @ np.array([counts[i] for i in support])) if support else 0.0

    for t in range(1, most + 1):
        n_t, old = next(draws), dict(counts)
        hit = C / max(t - 1, 1) * product(X[n_t]) < 1
        if hit:
            counts[n_t] = counts.get(n_t, 0.0) + 1.0
        if theta is not None:
            support = list(counts)
            before = np.array([C / max(t - 1, 1) * old.get(i, 0.0) for i in support])
            change = np.array([C / t * counts[i] for i in support]) - before
            norm = np.sqrt(max(change @ gaussian(X[support], X[support], gamma) @ change, 0.0))
        if budget is not None and len(counts) > budget:
            p = min(counts, key=lambda i: abs(counts[i]))
            rest = [i for i in counts if i != p]
            if strategy == "project-nearest":
                rest.sort(key=lambda i: ((X[i] - X[p]) ** 2).sum())
                rest = rest[:k]
            elif strategy == "project-random":
                rest = list(np.array(rest)[others.choice(len(rest), min(k, len(rest)), False)])
            if strategy != "removal":
                gram = gaussian(X[rest], X[rest], gamma)
                target = gaussian(X[rest], X[[p]], gamma)[:, 0]
                shares = np.linalg.lstsq(gram, target, rcond=None)[0]
                for i, share in zip(rest, shares, strict=True):
                    counts[i] += counts[p] * share
            del counts[p]
        if theta is not None and norm <= theta:
            break
    return {i: C / t * n for i, n in counts.items()}, t


def printed_clusters(X, S, alpha, gamma, epsilon, m=20, tolerance=1e-5, apart=1e-2):
    """Algorithm 3 as printed: the label of every row, None where B_eps is empty.

    A number of a cluster is that of its first equilibrium. The tolerances are those that the paper
    does not give: `apart` (in units of sigma) tells equilibria apart, and `tolerance` is the
    rounding of f on a segment. Also returns which rows have no other nearest point of B_eps.
    """
    X, S = np.float64(X), np.float64(S)

    def f(points):
        return gaussian(points, S, gamma) @ alpha - 1

    near = np.flatnonzero(np.abs(f(X)) <= epsilon)
    if not len(near):
        return None, None
    sigma = 1 / np.sqrt(2 * gamma)
    E = []
    for i in near:
        x = X[i]
        for _ in range(2000):
            weights = alpha * np.exp(-gamma * ((S - x) ** 2).sum(axis=1))
            moved = weights @ S / weights.sum()
            step, x = np.linalg.norm(moved - x), moved
            if step <= 1e-4 * sigma:
                break
        E.append(x)
    E = np.array(E)
    far = np.linalg.norm(E[:, None] - E[None], axis=2)
    same = connected_components(far <= apart * sigma, directed=False)[1]
    first = [np.flatnonzero(same == e)[0] for e in range(same.max() + 1)]
    points = E[first]
    t = np.arange(1, m + 1)[:, None] / (m + 1)
    adjacent = np.zeros((len(points), len(points)))
    for i in range(len(points)):
        for j in range(i):
            adjacent[i, j] = f(points[i] + t * (points[j] - points[i])).min() >= -tolerance
    group = connected_components(adjacent, directed=False)[1]
    labels = np.empty(len(X), int)
    certain = np.ones(len(X), bool)
    for i in range(len(X)):
        gaps = np.linalg.norm(X[near] - X[i], axis=1)
        nearest = np.flatnonzero(gaps <= gaps.min() * (1 + 1e-6) + 1e-9)
        names = group[same[nearest]]
        labels[i], certain[i] = names[0], len(set(names)) == 1
    for e, i in enumerate(near):
        labels[i], certain[i] = group[same[e]], True
    return labels, certain
