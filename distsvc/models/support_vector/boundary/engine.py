"""The papers' engine: the domain of novelty and its connected parts.

| Pham, Le and Dang (2017), Pham, Le, Le and Tran (2016) | here |
|---|---|
| Algorithms 1 and 2 | `BoundaryEngine.train` |
| max sum a - a'Ka/2 over 0 <= a_i <= C/N, the dual | solver "exact" with C |
| rho* and C = 1 / (nu rho*), from the nu-one-class SVM (Schoelkopf et al. 2001) | ``nu`` |
| B_eps; eps | `BoundaryEngine.boundary`; ``epsilon`` |
| E | `BoundaryEngine.equilibria` |
| Algorithm 3, lines 4 to 9 | `BoundaryEngine.set_equilibria`, `BoundaryEngine.set_clusters` |

Phase two has four steps, which depend on the parameter `labelling`. Rows inside have f >= 0.

| step | "equilibria" | "complete-graph" | "balls" |
|---|---|---|---|
| points that label the rows | boundary rows | rows inside | centres of balls |
| ends of these points | after a climb | the points themselves | after a climb with merging |
| vertices tested in pairs | equilibria, support vectors inside | rows inside | equilibria |
| clusters | components | components | components |
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from distsvc.errors import ParameterError
from distsvc.job.parameters import IN_MEMORY
from distsvc.kernels.training import coordinate_ascent, gram_matrix
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Checkpoint, State
from distsvc.models.rows.sampling import Ranges, Reservoir
from distsvc.models.rows.threads import map_threads
from distsvc.models.rules.fields import Facts
from distsvc.models.support_vector.boundary import labelling, printed
from distsvc.models.support_vector.boundary.base import Parts, SupportVectorEngine
from distsvc.models.support_vector.boundary.kernel_width import automatic_gamma
from distsvc.models.support_vector.boundary.labelling import Boundary, DecisionFunction
from distsvc.models.support_vector.boundary.libsvm import one_class_machine, one_class_offset
from distsvc.models.support_vector.boundary.rule import BoundaryRule
from distsvc.models.support_vector.boundary.stochastic_gradient import (
    Blocks,
    StochasticGradient,
    descend,
)

EVALUATION_ROWS, PENALTY_ROWS, EXACT_ROWS = 2048, 2000, 10_000
"""Number of rows on which the objective J is measured; maximum number of rows to compute C from nu;
and maximum number of rows for the solver "exact" with C."""

FEW_VECTORS = 100
"""Default budget of support vectors."""

WIDENED = "epsilon was widened"
"""Start of the note on a widened epsilon. Training replaces an earlier note with this start."""


class BoundaryEngine(SupportVectorEngine):
    """Finds the connected parts of {x : f(x) >= 0} for a trained function f."""

    nu: float  # share of rows outside; not used if C sets the level
    descent: StochasticGradient  # phase one; unset if solver is "exact" or variant is "published"
    epsilon: float  # half-width of the extended boundary, possibly widened
    boundary: Boundary  # rows near f = 0; unset if labelling needs the table in memory
    points: np.ndarray  # (m, d) float32, centred: rows take the label of the nearest point
    vertices: np.ndarray  # (v, d) float32: equilibria, and support vectors inside if `bridging`
    rule: BoundaryRule
    pending = False  # whether rows were fed since clusters were found
    most_rows: int | None = None  # maximum number of rows of the exact solver, in a job
    _stream: Reservoir | None = None
    _end_of: np.ndarray  # (m,) int: index of each point's equilibrium

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Set the centre, gamma and C from pilot rows (m, d), in the order of their keys."""
        given = self.parameters
        if given.solver == "exact" and given.C is not None and n_rows > EXACT_ROWS:
            raise ParameterError(
                f"solver='exact' with C keeps the whole kernel matrix and takes at most "
                f"{EXACT_ROWS} rows, found {n_rows}; give nu, or solver='bsgd'"
            )
        super().set_pilot(pilot, n_rows)
        wide, gamma = self.pilot.astype(np.float64), given.gamma
        self.gamma = automatic_gamma(wide, self.n_jobs) if isinstance(gamma, str) else float(gamma)
        self.nu = float(0.1 if given.nu is None else given.nu)
        if given.C is not None:
            self.C = float(given.C)
        elif given.solver != "exact":
            rows = wide[:PENALTY_ROWS]
            self.C = len(rows) / one_class_offset(rows, self.gamma, self.nu)
        if given.solver != "exact" and not given.is_published:
            self.descent = self._new_descent()

    @property
    def budget(self) -> int | None:
        """The maximum number of support vectors; None without a budget."""
        given = self.parameters
        return (given.budget or FEW_VECTORS) if given.solver == "bsgd" else None

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the blocks of an epoch.

        They contain at most `max_iter` rows, or `most_rows` with ``solver="exact"``. In a large
        table, they leave out the rows on which the objective J is measured.
        """
        given = self.parameters
        if given.solver == "exact":
            return sampling.key_blocks(n_rows, min(n_rows, self.most_rows or n_rows))
        held_out = n_rows >= 20 * EVALUATION_ROWS and not given.is_published
        n_held_out = EVALUATION_ROWS if held_out else 0
        return sampling.key_blocks(n_rows, min(n_rows, given.max_iter), n_held_out)

    def train(self, blocks: Blocks, checkpoint: Checkpoint = NO_CHECKPOINT) -> None:
        """Train the decision function.

        ``blocks(epoch, first)`` returns the centred blocks of an epoch, from block `first` on.
        """
        given = self.parameters
        if given.solver != "exact" and given.is_published:
            X, model = np.concatenate(list(blocks(0, 0))), (self.gamma, self.C, self.budget)
            how = given.maintenance, given.projection_size, self.seed
            make = partial(printed.PrintedDescent, X, *model, *how)
            S, a, self.n_iter = printed.descend(make, given.theta, given.max_iter, given.iterate)
        elif given.solver != "exact":
            evaluation = self.pilot[:EVALUATION_ROWS] if given.stopping == "held-out" else None
            descend(self.descent, blocks, given.max_iter, evaluation, given.tol, checkpoint)
            self.n_iter = self.descent.n_steps
            if given.iterate == "random":
                # The second run has no checkpoints, because it is no longer than the first.
                self.descent = self._new_descent()
                r = int(np.random.default_rng((self.seed, 2)).integers(1, self.n_iter + 1))
                descend(self.descent, blocks, r, None, given.tol)
            S, a = self.descent.vectors, self.descent.coefficients
        else:
            X = np.concatenate(list(blocks(0, 0)))
            if given.C is None:
                machine, offset = one_class_machine(X, self.gamma, self.nu)
                S = np.ascontiguousarray(X[machine.support_].T, np.float32)
                a, self.C = machine.dual_coef_[0] / offset, len(X) / offset  # f is 0 at the offset
                self.n_iter = int(machine.n_iter_)
            else:
                a, K = np.zeros(len(X)), gram_matrix(X.astype(np.float64), self.gamma)
                self.n_iter = coordinate_ascent(K, a, self.C / len(X), 1e-9, given.max_iter)
                S, a = np.ascontiguousarray(X[a > 0.0].T), a[a > 0.0]
        self._set_decision(S, a)

    def trained(self) -> State:
        """Return the state after training, as JSON values and arrays.

        `restore` and the tasks of phase two take this state.
        """
        names, given = ("gamma", "C", "epsilon", "n_iter"), self.parameters
        facts = {name: getattr(self, name) for name in names} | {"notes": list(self.notes)}
        facts |= {name: getattr(given, name) for name in ("boundary_size", "segment_samples")}
        return facts, {"S": self.decision.S, "a": self.decision.a}

    def restore(self, facts: Facts, arrays: Mapping[str, np.ndarray]) -> None:
        self.gamma, self.C, self.epsilon = facts["gamma"], facts["C"], facts["epsilon"]
        self.n_iter, self.notes = facts["n_iter"], list(facts["notes"])
        self.decision = DecisionFunction(arrays["S"], arrays["a"], self.gamma)

    def set_equilibria(self, points: np.ndarray, ends: np.ndarray) -> None:
        """Set the points (m, d) that label rows, and the equilibria to which they climb.

        Point i climbs to ``ends[i]``, in an array (m, d). Near ends are merged into one
        equilibrium, except with the complete graph.
        """
        self.points = points
        if self.parameters.labelling == "complete-graph":
            self.equilibria, self._end_of = ends, np.arange(len(ends))
        else:
            push = not self.parameters.is_published
            self.equilibria, self._end_of = labelling.merge_equilibria(self.decision, ends, push)
        self.vertices = self.equilibria
        if self.parameters.bridging and self.parameters.labelling not in IN_MEMORY:
            S = np.ascontiguousarray(self.decision.S.T)
            self.vertices = np.concatenate([self.vertices, S[self.decision(S) >= 0.0]])
        if len(self.equilibria) == 1:
            self.note("all rows climb to the same density peak: the answer is one cluster")

    def set_clusters(self, pairs: np.ndarray) -> None:
        """Set the clusters: the components of the equilibria in the graph with edges `pairs`.

        `pairs` (p, 2) are indices of `vertices`.
        """
        f, E = self.decision, self.equilibria
        group = labelling.components(pairs, len(self.vertices))[: len(E)]
        points, cluster, self.equilibrium_labels = labelling.clusters_of_points(
            f, self.points, self._end_of, E, group, self.pilot, self.parameters.is_published
        )
        self.rule = BoundaryRule(f.S, f.a, points, cluster, self.gamma)
        self.pending = False

    @property
    def support_vectors(self) -> np.ndarray:
        return self.decision.S.T

    def fitted_facts(self) -> Facts:
        facts: Facts = {"gamma": self.gamma, "C": self.C}
        if self.parameters.labelling not in IN_MEMORY:
            facts |= {
                "epsilon": self.epsilon,
                "n_boundary": len(self.boundary.X),
                "n_boundary_found": self.boundary.n_rows,
            }
        return facts | {
            "n_iter": self.n_iter,
            "n_support_vectors": len(self.decision.a),
            "n_equilibria": len(self.equilibria),
            "n_clusters": self.rule.n_clusters,
        }

    # Methods for an estimator.

    def seen(self, X: np.ndarray) -> np.ndarray:
        return self.centred(X)

    def learn(self, rows: np.ndarray, keys: np.ndarray, n_rows: int) -> None:
        blocks = partial(sampling.memory_blocks, rows, keys, self.seed)
        ranges = self.key_ranges(n_rows)
        self.train(lambda epoch, first: blocks(epoch, ranges, first))

    def find_clusters(self, parts: Parts) -> None:
        given, f, samples = self.parameters, self.decision, self.parameters.segment_samples
        if given.labelling in IN_MEMORY:
            rows, keys = map(np.concatenate, zip(*parts, strict=True))
        if given.labelling == "complete-graph":
            points = ends = labelling.inside_rows(f, rows)
        elif given.labelling == "balls":
            points = labelling.ball_centres(rows, keys, given.ball_radius)
            samples = labelling.BALL_SAMPLES
            ends = labelling.climb_together(f, points, given.merge_radius)
        else:
            self.boundary, limit = Boundary.empty(f), given.boundary_size
            for rows, keys in parts:
                found = Boundary.collect(f, rows, keys, self.epsilon, limit)
                self.boundary = self.boundary.merge(found, limit)
            self.boundary.check(self.epsilon)
            points = self.boundary.X
            # One task of a thread climbs from about 128 rows.
            parts_of = np.array_split(points, max(len(points) // 128, 1))
            climb = partial(labelling.climb, f)
            ends = np.concatenate(map_threads(climb, parts_of, self.n_jobs))
        self.set_equilibria(points, ends)
        if given.labelling in IN_MEMORY:
            pairs = labelling.joined_pairs(f, self.vertices, samples)
        else:
            n_blocks = labelling.pair_blocks(len(self.vertices))
            test = partial(labelling.connected_pairs, f, self.vertices, samples=samples)
            pairs = np.concatenate(map_threads(test, range(n_blocks), self.n_jobs))
        self.set_clusters(pairs)

    # Methods for a stream, whose rows are not stored.

    @property
    def streams(self) -> bool:
        """Whether this engine learns from a stream, by `feed`."""
        return self._stream is not None

    def feed(self, rows: np.ndarray) -> None:
        """Do one step for each centred row (n, d) of the stream's next block, in order.

        The pilot is replaced by the rows of the stream so far with the lowest keys.
        """
        if self._stream is None:
            self._stream = Reservoir.empty(self.seed, rows.shape[1])
        self.descent.feed(rows)
        self._stream.add(rows)
        self.pilot = self._stream.rows
        self._set_decision(self.descent.vectors, self.descent.coefficients)
        self.n_iter, self.pending = self.descent.n_steps, True

    def find_pending_clusters(self) -> None:
        """Find the clusters of the stream's rows, from the pilot of the rows so far."""
        assert self._stream is not None
        self.find_clusters([(self._stream.rows, self._stream.keys)])

    def _new_descent(self) -> StochasticGradient:
        given = self.parameters
        return StochasticGradient(
            n_features=self.centre.size,
            gamma=self.gamma,
            C=self.C,
            budget=self.budget,
            maintenance=given.maintenance,
            projection_size=given.projection_size,
            theta=given.theta if given.stopping == "step-norm" else 0.0,
            average=given.iterate == "average",
            seed=self.seed,
        )

    def _set_decision(self, S: np.ndarray, a: np.ndarray) -> None:
        """Set the decision function f and `epsilon`, from vectors S (d, B) with weights a (B,).

        The weights are divided by the value of w.phi(x) on the boundary, so that f is 0 there.
        """
        f = DecisionFunction(S, a.astype(np.float32), self.gamma)
        level = self._level(f(self.pilot).astype(np.float64) + 1.0)
        if level < 1e-6:
            raise ParameterError(
                f"C must be larger, found {self.C!r}: at the boundary, the density w.phi(x) is "
                f"{level:g}, too small for float32"
            )
        used = a != 0.0
        weights = (a[used] / level).astype(np.float32)
        self.decision = DecisionFunction(np.ascontiguousarray(S[:, used]), weights, self.gamma)
        self.epsilon = float(self.parameters.epsilon)
        if self.parameters.is_published or self.parameters.labelling in IN_MEMORY:
            return
        values, epsilon = self.decision(self.pilot), self.epsilon
        wanted = min(50, len(values))
        nearest = float(np.partition(np.abs(values), wanted - 1)[wanted - 1])
        self.epsilon = max(epsilon, nearest)
        self.notes[:] = [note for note in self.notes if not note.startswith(WIDENED)]
        if self.epsilon > epsilon:
            n_near = int((np.abs(values) <= epsilon).sum())
            self.note(
                f"{WIDENED} from {epsilon:g} to {self.epsilon:.3g}: {n_near} of the "
                f"{len(values)} tested rows lie within {epsilon:g} of the boundary, "
                f"and {wanted} are needed"
            )

    def _level(self, values: np.ndarray) -> float:
        """Return the level of w.phi(x) at which f has to be 0.

        `values` (m,) are w.phi(x) for the rows x of the pilot.
        """
        given, level = self.parameters, 1.0
        if given.is_published:
            return level
        too_low = given.C is not None and values.max() < 1.0
        if too_low or (given.C is None and given.solver != "exact"):
            level = float(np.quantile(values, self.nu, method="lower"))
        if too_low:
            self.note(
                f"C = {self.C:g} is too small: it puts all rows outside; the boundary was moved so "
                f"that a share {self.nu} of the rows lies outside"
            )
        least = 1e-3 * float(values.max())
        if level < least:
            level = least
            self.note(
                "more rows than the share nu are far from every support vector, and lie outside; "
                "the boundary is at a thousandth of the highest density w.phi(x)"
            )
        return level
