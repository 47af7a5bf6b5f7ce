"""The default algorithm's choice among the partitions that a graph and mixtures propose.

1. Proposals are partitions of the pilot rows, a random sample of the table. Mixtures and the graph
   make them; one cluster is a proposal, too. If the number of clusters is not given, mixtures that
   are fitted to half of the rows must find a mixture's partition again.
2. The quality of a proposal is the BIC of the rows if each of its clusters is one population, whose
   columns may depend on each other (`distsvc.models.mixture.population`).
3. Another sample of the table might prefer another proposal. Replicates simulate such samples: they
   give the rows' log-likelihoods random signs (Liu 1988). A mixture with overlapping clusters
   can't win a replicate in which one population is as good as the best mixture of normals.
4. The answer is the proposal with the highest expected adjusted Rand index with the proposal that a
   replicate prefers (Fritsch and Ickstadt 2009).
5. The previous run's answer, fitted again, is also a proposal. It is replaced only by a proposal
   that is clearly better on rows to which neither proposal was fitted. The test is Vuong's (1989)
   for models that are not nested, with the BIC's correction for the numbers of parameters.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from distsvc.models.automatic.previous import MixtureStart
from distsvc.models.columns.model import keyed_uniforms
from distsvc.models.mixture.density import MixtureRows, NormalMixture, Prior, Shape, run_em
from distsvc.models.mixture.population import PopulationRows, Quality, quality_of
from distsvc.models.mixture.search import MixtureSearch, search, wanted_components
from distsvc.models.rows.agreement import SAME_ANSWER, expected_rand_index, rand_indices
from distsvc.models.rows.min_cluster_size import least_mass
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rows.sampling import row_keys
from distsvc.models.rows.threads import map_threads, one_thread
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.level_sets import LevelSets
from distsvc.models.support_vector.level_tree.proposals import rand_index

LEVEL_TREE, GRAPH, CENTRES, MIXTURE = "support-vector", "graph", "centres", "mixture"
"""Names of the views, as in `AutoClustering.algorithm_`."""

SEARCH_ROWS, DECISION_ROWS = 2_000, 5_000
"""Maximum number of pilot rows in the search for mixtures, and in the comparison of proposals."""

FINAL_STEPS, FINAL_TOLERANCE = 20, 1e-4
"""Maximum number of EM steps, and the gain in nats per row below which EM ends. They hold for the
final fit on all pilot rows, and for the fit that starts from the previous answer."""

SEPARATE = 0.65
"""Adjusted Rand index at or below which the clusters of a mixture overlap.

The index compares two partitions of the rows: each row in its likeliest cluster, and each row in a
random cluster, drawn with the row's posterior probabilities.
"""

REPLICATE_WORDS = 4
"""Number of 64-bit words of random signs per row; each bit is the row's sign in one replicate."""

SIGNIFICANT = 3.8
"""Minimum z statistic of a proposal that replaces the previous run's answer.

It is the 5 % level for all nights of a year: 365 tests (Bonferroni).
"""

DRAWN, HALVES, SIGNS = 0, 1, 2
"""Salts of three independent series of random numbers: for drawing clusters, for dividing the
rows into halves, and for the signs of replicates."""

FOLLOWED = "The clusters of the previous run were found again and kept."

VIEW_WORDS = {GRAPH: "a graph of near rows", MIXTURE: "a mixture of normals and categories"}


@dataclass
class PartitionProposal:
    """A partition of the first m pilot rows that one view proposes.

    Populations are fitted to the clusters in `drawn`. Populations of the likeliest clusters
    (`labels`) would lack tails where clusters overlap.
    """

    view: str  # `LEVEL_TREE`, `GRAPH`, `CENTRES` or `MIXTURE`
    labels: np.ndarray  # (m,) int: clusters of the rows
    drawn: np.ndarray  # (m,) int: drawn from the rows' posteriors; `labels` without posteriors
    make: Callable[[], Rule]  # makes the rule
    levels: LevelSets | None = None  # set if a level tree made the partition
    quality: Quality = field(default_factory=lambda: Quality(np.zeros(0), 0))  # set by `measure`
    support: float = 1.0  # share of the models, or of the runs of k-means, that find the partition
    found_again: float = 1.0  # for a mixture: agreement with partitions from halves of the rows
    agreement: float = 0.0  # probability that another sample has this answer; set by `decide`
    preferred: float = 0.0  # share of other samples that prefer this proposal; set by `decide`

    @property
    def n_clusters(self) -> int:
        return len(np.unique(self.labels))

    def measure(self, rows: PopulationRows) -> None:
        """Set `quality` on `rows`, the first pilot rows, and drop the labels of all later rows."""
        m = len(rows)
        self.labels, self.drawn = self.labels[:m], self.drawn[:m]
        self.quality = quality_of(rows, np.unique(self.drawn, return_inverse=True)[1])


@dataclass(frozen=True)
class Mixtures:
    """The proposals of mixtures, the proposal of one cluster, and the best mixture's quality."""

    proposals: list[PartitionProposal]
    one: PartitionProposal  # proposal of one cluster
    normals: Quality  # quality of the best mixture of normals


@dataclass(frozen=True)
class Alternative:
    """The proposal that another sample most probably has, if it does not have the answer."""

    proposal: PartitionProposal
    chance: float  # probability that another sample has this proposal, not the answer
    likeness: float  # adjusted Rand index with the answer


@dataclass(frozen=True)
class ViewDecision:
    """The chosen proposal and the list of all proposals."""

    best: PartitionProposal
    proposals: list[PartitionProposal]  # all proposals, the most probable first
    followed: bool  # whether the previous run's answer was kept

    @cached_property
    def alternative(self) -> Alternative | None:
        """The most probable proposal that differs from the answer; None if no proposal differs."""
        every = self.proposals
        indices = rand_indices([self.best.labels, *(each.labels for each in every)])
        same = indices > SAME_ANSWER
        differ = ~same[0, 1:]
        if not differ.any():
            return None
        found_again = np.array([each.found_again for each in every])
        elsewhere = differ * found_again * [each.preferred for each in every]
        chances = np.where(differ, found_again * (same[1:, 1:] @ elsewhere), -1.0)
        best = int(chances.argmax())
        return Alternative(every[best], float(chances[best]), float(indices[0, 1 + best]))

    @property
    def overlap(self) -> float | None:
        """Expected share of rows in a wrong cluster, by the posteriors of the populations.

        None for one cluster, or if clusters hardly overlap: then labels drawn by the posteriors
        have an expected adjusted Rand index above `SAME_ANSWER` with the answer.
        """
        posterior = self.best.quality.posterior
        if posterior is None or expected_rand_index(self.best.labels, posterior) > SAME_ANSWER:
            return None
        return float(1.0 - posterior.max(axis=1).mean())

    def counts(self) -> dict[str, int]:
        """Return the number of clusters of each view's best proposal, by view."""
        found: dict[str, int] = {self.best.view: self.best.n_clusters}
        for one in self.proposals:
            found.setdefault(one.view, one.n_clusters)
        return found

    def why(self) -> str:
        if self.followed:
            return FOLLOWED
        if self.best.n_clusters == 1:
            return (
                "One cluster, whose columns may depend on each other, describes the table at least "
                "as well as several clusters."
            )
        return (
            f"The clusters of {VIEW_WORDS[self.best.view]} describe the table best, if the columns "
            "of a cluster may depend on each other."
        )


def mixture_proposals(
    rows: MixtureRows,
    medians: MixtureRows,
    latent: np.ndarray,
    row_numbers: np.ndarray,
    n_clusters: int | None,
    n_jobs: int | None,
    make_rule: Callable[[NormalMixture, np.ndarray, np.ndarray], Rule],
    start: MixtureStart | None = None,
) -> Mixtures:
    """Return the partitions of n pilot rows that mixtures propose.

    The best fit with each number of components is a proposal. From the best fit of all, the two
    most confused clusters are joined repeatedly, and each result is a proposal. Proposals with very
    small clusters are dropped; with `n_clusters`, they are used if there are no others. Without
    `n_clusters`, mixtures of half of the rows must find a partition again; the most stable one
    always stays. A mixture fitted from `start`, the previous answer, is then proposed, too.

    `rows`, `medians` and `latent` have the same n rows. In `rows`, numbers are random draws from
    their cells; mixtures are fitted to these draws. In `medians`, numbers are medians of their
    cells, as when a rule labels the table; these decide the sizes of clusters. `latent` (n, r) has
    continuous variables, from which k-means finds starts. Random numbers are keyed by `row_numbers`
    (n,) int64, the rows' numbers in the table. ``make_rule(mixture, cluster, labels)`` returns a
    rule from a mixture, the clusters (K,) of its components and the labels (n,) of the rows.
    """
    m = min(len(rows), DECISION_ROWS)
    first, n_fitted = rows.take(np.arange(m)), min(m, SEARCH_ROWS)
    fitted_rows = rows.take(np.arange(n_fitted))
    found = search(fitted_rows, latent[:n_fitted], n_clusters, n_jobs)
    first_medians = medians.take(np.arange(m))
    uniforms = keyed_uniforms(row_numbers[:m], DRAWN)[:, None]

    def proposal(
        mixture: NormalMixture,
        cluster: np.ndarray,
        posterior: np.ndarray,
        prior_mixture: NormalMixture | None = None,
    ) -> PartitionProposal:
        drawn = (np.cumsum(posterior, axis=1) < uniforms).sum(axis=1)
        make = partial(_final_rule, rows, medians, mixture, cluster, make_rule, prior_mixture)
        drawn = np.minimum(drawn, posterior.shape[1] - 1)
        return PartitionProposal(MIXTURE, posterior.argmax(axis=1), drawn, make)

    wanted, proposals, large = wanted_components(n_clusters), [], []
    least = least_mass(m, 1)  # fewer rows are outliers, not a cluster, as in level trees
    for mixture, cluster, posterior in _partitions(found, first):
        if wanted in (None, posterior.shape[1]):
            proposals.append(proposal(mixture, cluster, posterior))
            if _sizes(mixture, cluster, first_medians).min() >= least:
                large.append(proposals[-1])
    if large or n_clusters is None:
        proposals = large
    if n_clusters is None:
        shape = found.best.mixture.shape
        labels = [each.labels[:n_fitted] for each in proposals]
        again = _agreement_of_halves(labels, fitted_rows, latent, row_numbers, shape, n_jobs)
        # The most stable partition stays even if no partition is found again.
        bound = min(SAME_ANSWER, again.max(initial=0.0))
        for each, found_again in zip(proposals, again.tolist(), strict=True):
            each.found_again = found_again
        proposals = [each for each in proposals if each.found_again >= bound]
        if start is not None and len(np.unique(start.cluster)) > 1:
            start, mixture, cluster, posterior = _refit(start, first, first_medians, shape, least)
            proposals.append(proposal(mixture, cluster, posterior, start.mixture))
    one = proposal(found.best_of_each[0].mixture, np.zeros(1, np.int64), np.ones((m, 1)))
    best = found.best.mixture
    return Mixtures(proposals, one, Quality(best.likelihoods(first), best.n_parameters))


def _partitions(
    found: MixtureSearch, rows: MixtureRows
) -> Iterator[tuple[NormalMixture, np.ndarray, np.ndarray]]:
    """Yield a mixture, the cluster (K,) of each component, and the posteriors (n, k) of clusters.

    First come the best fits with 2, 3, ... components, each of which is a cluster. Then the two
    most confused clusters of the best fit of all are joined, until two are left.
    """
    for fit in found.best_of_each[1:]:
        yield fit.mixture, np.arange(fit.mixture.n_components), fit.mixture.posterior(rows)
    mixture = found.best.mixture
    posterior, cluster = mixture.posterior(rows), np.arange(mixture.n_components)
    while posterior.shape[1] > 2:
        posterior, cluster = _join_confused(posterior, cluster)
        yield mixture, cluster, posterior


def _agreement_of_halves(
    labels: Sequence[np.ndarray],
    rows: MixtureRows,
    latent: np.ndarray,
    row_numbers: np.ndarray,
    shape: Shape,
    n_jobs: int | None,
) -> np.ndarray:
    """Return the agreement (k,) of each partition in `labels` with mixtures of half of the rows.

    Mixtures with covariances of a `shape` are fitted to each half, and partition all n rows. The
    agreement is the highest adjusted Rand index with any of their partitions (n,), averaged over
    both halves.
    """
    prior = Prior.of(rows)
    order = np.argsort(keyed_uniforms(row_numbers[: len(rows)], HALVES))

    def nearest(first: int) -> np.ndarray:
        own = np.sort(order[first::2])
        found = search(rows.take(own), latent[own], shapes=(shape,), prior=prior)
        others = [posterior.argmax(axis=1) for _, _, posterior in _partitions(found, rows)]
        indices = rand_indices([*labels, *others])[: len(labels), len(labels) :]
        return indices.max(axis=1, initial=0.0)

    if not labels:
        return np.zeros(0)
    with one_thread():
        return np.mean(map_threads(nearest, (0, 1), n_jobs), axis=0)


def _sizes(mixture: NormalMixture, cluster: np.ndarray, rows: MixtureRows) -> np.ndarray:
    """Return the number of `rows` (k,) by cluster; `cluster` (K,) has the components' clusters."""
    labels = _by_cluster(mixture.posterior(rows), cluster).argmax(axis=1)
    return np.bincount(labels, minlength=int(cluster.max()) + 1)


def _by_cluster(posterior: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """Return the posteriors (n, k) of clusters, sums of the posteriors (n, K) of components."""
    k = int(cluster.max()) + 1
    return np.stack([posterior[:, cluster == c].sum(axis=1) for c in range(k)], axis=1)


def _refit(
    start: MixtureStart, rows: MixtureRows, medians: MixtureRows, shape: Shape, least: float
) -> tuple[MixtureStart, NormalMixture, np.ndarray, np.ndarray]:
    """Fit the previous answer to tonight's rows; drop clusters with fewer than `least` rows.

    EM runs from `start`, and again after each drop. `rows`, `medians` and `shape` are as in
    `mixture_proposals`. Return the start of the last EM, the mixture, the cluster (K,) of each
    component, and the posteriors (n, k) of clusters.
    """
    prior = Prior.of(rows)
    while True:
        prior_mixture, cluster = start.mixture, start.cluster
        mixture = NormalMixture.from_posteriors(rows, start.posterior, prior, shape, prior_mixture)
        mixture, _ = run_em(rows, mixture, prior, FINAL_STEPS, FINAL_TOLERANCE, prior_mixture)
        found = mixture.posterior(rows)
        stays = _sizes(mixture, cluster, medians) >= least
        if stays.all() or not stays.any():
            return start, mixture, cluster, _by_cluster(found, cluster)
        kept = np.flatnonzero(stays[cluster])
        posterior = found[:, kept] + np.finfo(float).tiny
        posterior /= posterior.sum(axis=1, keepdims=True)
        number = np.unique(cluster[kept], return_inverse=True)[1]
        start = MixtureStart(posterior, number, prior_mixture and prior_mixture.ordered(kept))


def _join_confused(posterior: np.ndarray, cluster: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join the two most confused clusters (Hennig 2010).

    Takes and returns the posteriors (n, k) of clusters and the cluster (K,) of each component.
    """
    k = posterior.shape[1]
    labels = posterior.argmax(axis=1)
    sums = np.array([posterior[labels == c].sum(axis=0) for c in range(k)])
    confused = sums / np.maximum(np.bincount(labels, minlength=k), 1)[:, None]
    np.fill_diagonal(confused, -1.0)
    both = np.maximum(confused, confused.T)
    b, a = sorted(np.unravel_index(int(both.argmax()), both.shape))
    joined = np.delete(posterior, a, axis=1)
    joined[:, b] += posterior[:, a]
    cluster = np.where(cluster == a, b, cluster)
    return joined, np.where(cluster > a, cluster - 1, cluster)


def _final_rule(
    rows: MixtureRows,
    medians: MixtureRows,
    mixture: NormalMixture,
    cluster: np.ndarray,
    make_rule: Callable[[NormalMixture, np.ndarray, np.ndarray], Rule],
    prior_mixture: NormalMixture | None = None,
) -> Rule:
    """Return the rule of a mixture; cluster 0 is the largest among the rows `medians`.

    A mixture that was fitted to a part of the `rows` is first fitted to all by EM. The prior of EM
    is `prior_mixture`, a mixture of earlier rows, as in `run_em`.
    """
    if len(rows) > SEARCH_ROWS:
        mixture, _ = run_em(
            rows, mixture, Prior.of(rows), FINAL_STEPS, FINAL_TOLERANCE, prior_mixture
        )
    labels = _by_cluster(mixture.posterior(rows), cluster).argmax(axis=1)
    number = ranks_by_size(_sizes(mixture, cluster, medians)).astype(np.int64)
    return make_rule(mixture, number[cluster], number[labels])


def decide(
    mixtures: Mixtures,
    graph: Sequence[PartitionProposal],
    row_numbers: np.ndarray,
    n_clusters: int | None,
    previous_labels: np.ndarray | None,
    all_rows: Callable[[], PopulationRows],
) -> ViewDecision:
    """Choose the answer among all proposals, whose qualities are set.

    `graph` are partitions by the graph's level tree, and by the previous run's landmarks. With
    `n_clusters`, only the proposals with the most clusters are compared. Random signs are keyed by
    `row_numbers` (n,) int64, the numbers of the pilot rows in the table. `previous_labels` (n,) are
    the pilot rows' labels by the previous run's rule. ``all_rows()`` returns all pilot rows; it is
    called if the previous answer must be compared.
    """
    m = len(mixtures.one.labels)
    one, proposals = mixtures.one, [*graph, *mixtures.proposals]
    if n_clusters is None or not proposals:
        proposals.append(one)
    if n_clusters is not None:  # a tree may have fewer branches than are wanted
        most = max(each.n_clusters for each in proposals)
        proposals = [each for each in proposals if each.n_clusters == most]
    indices = rand_indices([each.labels for each in proposals])
    preferred = _preferred(proposals, mixtures, row_numbers[:m], n_clusters is None)
    best = proposals[int((indices @ preferred).argmax())]
    found_again = np.array([each.found_again for each in proposals])
    for each, share, same in zip(proposals, preferred, indices > SAME_ANSWER, strict=True):
        # Halves must find both again: this partition, and the partition that a replicate prefers.
        each.agreement = each.found_again * float(preferred @ (same * found_again))
        each.preferred = float(share)
    proposals.sort(key=lambda each: (-each.agreement, -each.quality.bic))
    followed = False
    if previous_labels is not None and n_clusters is None:
        earlier = _like_previous(proposals, previous_labels[:m])
        followed = earlier is best
        if earlier is not None and not followed:
            followed = not _clearly_better(best, earlier, all_rows())
            best = earlier if followed else best
    return ViewDecision(best, proposals, followed)


def _preferred(
    proposals: Sequence[PartitionProposal],
    mixtures: Mixtures,
    row_numbers: np.ndarray,
    n_is_free: bool,
) -> np.ndarray:
    """Return the share of simulated samples (replicates) that prefer each proposal, (k,).

    A replicate prefers the proposal with the highest BIC. It multiplies each row's deviation from
    the mean log-likelihood by a random sign, which is equal for all proposals. The variance is
    doubled, because the pilot and the other sample both differ from the population. If
    `n_is_free`, a mixture with overlapping clusters loses in each replicate in which one
    population is at least as good as the best mixture of normals.
    """
    bits = [row_keys(SIGNS + word, row_numbers) for word in range(REPLICATE_WORDS)]
    signs = np.unpackbits(np.stack(bits, axis=1).view(np.uint8), axis=1) * 2.0 - 1.0

    def replicates(quality: Quality) -> np.ndarray:
        centred = quality.log_density - quality.log_density.mean()
        return quality.bic + np.sqrt(2.0) * (centred @ signs)

    found = np.stack([replicates(each.quality) for each in proposals])
    if n_is_free:
        one_suffices = replicates(mixtures.one.quality) >= replicates(mixtures.normals)
        for each, own in zip(proposals, found, strict=True):
            if each.view == MIXTURE and each.n_clusters > 1:
                overlap = rand_index(each.labels, each.drawn) <= SEPARATE
                own[one_suffices & overlap] = -np.inf
    return np.bincount(found.argmax(axis=0), minlength=len(proposals)) / found.shape[1]


def _like_previous(
    proposals: Sequence[PartitionProposal], previous_labels: np.ndarray
) -> PartitionProposal | None:
    """Return the proposal most like the previous labels (m,); None if none is like them."""
    if len(np.unique(previous_labels)) == 1:
        return next((each for each in proposals if each.n_clusters == 1), None)
    likeness = [rand_index(previous_labels, each.labels) for each in proposals]
    nearest = int(np.argmax(likeness))
    return proposals[nearest] if likeness[nearest] > SAME_ANSWER else None


def _clearly_better(one: PartitionProposal, other: PartitionProposal, rows: PopulationRows) -> bool:
    """Return True if `one` predicts the second half of rows clearly better than `other`.

    The populations of both proposals are fitted to the first half.
    """
    half = len(rows) // 2
    pair = [
        quality_of(rows, np.unique(each.drawn[:half], return_inverse=True)[1])
        for each in (one, other)
    ]
    return pair[0].predicts_better_than(pair[1]) >= SIGNIFICANT
