"""The partitions that mixtures of normals and categories propose to the default algorithm.

Mixtures are fitted to the first pilot rows. A partition is a proposal if mixtures that are fitted
to half of the rows find nearly the same partition.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from distsvc.models.automatic.modelled_rows import ModelledRows
from distsvc.models.automatic.previous import MixtureStart
from distsvc.models.automatic.proposals import MIXTURE, PartitionProposal
from distsvc.models.columns.model import keyed_uniforms
from distsvc.models.mixture.density import MixtureRows, NormalMixture, Prior, Shape, run_em
from distsvc.models.mixture.population import Quality
from distsvc.models.mixture.search import MixtureSearch, search, wanted_components
from distsvc.models.rows.agreement import SAME_ANSWER, rand_indices
from distsvc.models.rows.min_cluster_size import least_mass
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rows.threads import map_threads, one_thread
from distsvc.models.rules.rule import Rule

SEARCH_ROWS, DECISION_ROWS = 2_000, 5_000
"""Maximum number of pilot rows in the search for mixtures, and in the comparison of proposals."""

FINAL_STEPS, FINAL_TOLERANCE = 20, 1e-4
"""Maximum number of EM steps, and the gain in nats per row below which EM ends. Both are used in
the final fit on all pilot rows, and in the fit that starts from the previous answer."""

DRAWN, HALVES = 0, 1
"""Salts of two independent series of random numbers. One draws a cluster for each row from its
posteriors, the other divides the rows into halves."""


@dataclass(frozen=True)
class Mixtures:
    """The proposals of mixtures, the proposal of one cluster, and the best mixture's quality."""

    proposals: list[PartitionProposal]
    one: PartitionProposal  # proposal of one cluster
    normals: Quality  # quality of the best mixture of normals


def mixture_proposals(
    rows: ModelledRows,
    latent: np.ndarray,
    n_clusters: int | None,
    n_jobs: int | None,
    make_rule: Callable[[NormalMixture, np.ndarray, np.ndarray], Rule],
    start: MixtureStart | None = None,
) -> Mixtures:
    """Return the partitions of n pilot rows that mixtures propose.

    The best fit with each number of components is a proposal. The two most confused clusters of the
    best of these fits are joined repeatedly, and each result is a proposal. Proposals with very
    small clusters are dropped; with `n_clusters`, they are used if there are no others. Without
    `n_clusters`, mixtures of half of the rows must find a partition again. The most stable
    partition always stays. A mixture fitted from `start`, the previous answer, is also a proposal.

    Mixtures are fitted to the random draws in `rows`. The sizes of clusters are counted on the
    medians in `rows`, since rules label medians. `latent` (n, r) are the rows' continuous
    variables, from which k-means finds starts. ``make_rule(mixture, cluster, labels)`` returns a
    rule from a mixture, the clusters (K,) of its components and the labels (n,) of the rows.
    """
    draws, medians, row_numbers = rows.draws, rows.medians, rows.row_numbers
    m = min(len(draws), DECISION_ROWS)
    first, n_fitted = draws.take(np.arange(m)), min(m, SEARCH_ROWS)
    fitted_rows = draws.take(np.arange(n_fitted))
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
        make = partial(_final_rule, draws, medians, mixture, cluster, make_rule, prior_mixture)
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
    most confused clusters of the best of these fits are joined, until two clusters are left.
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
    """Count the `rows` (k,) in each cluster. `cluster` (K,) are the clusters of the components."""
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

    EM runs from `start`, and again after each drop. Mixtures with covariances of a `shape` are
    fitted to `rows`, random draws. Sizes are counted on `medians` of the same rows. Return the
    start of the last EM, the mixture, the cluster (K,) of each component, and the posteriors (n, k)
    of clusters.
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
    """Return the rule of a mixture. Its clusters are numbered by size, counted on `medians`.

    A mixture that was fitted to a part of the `rows` is first fitted to all rows by EM. EM's prior
    is `prior_mixture`, the previous run's mixture.
    """
    if len(rows) > SEARCH_ROWS:
        mixture, _ = run_em(
            rows, mixture, Prior.of(rows), FINAL_STEPS, FINAL_TOLERANCE, prior_mixture
        )
    labels = _by_cluster(mixture.posterior(rows), cluster).argmax(axis=1)
    number = ranks_by_size(_sizes(mixture, cluster, medians)).astype(np.int64)
    return make_rule(mixture, number[cluster], number[labels])
