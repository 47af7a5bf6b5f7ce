"""The default algorithm's choice among the partitions that a graph and mixtures propose.

1. Proposals are partitions of the pilot rows, a random sample of the table. Mixtures and the graph
   make them; one cluster is a proposal, too. If the number of clusters is not given, a mixture's
   partition is dropped unless mixtures of half of the rows find nearly the same partition.
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from distsvc.models.automatic.mixture_proposals import Mixtures
from distsvc.models.automatic.proposals import FOLLOWED, GRAPH, MIXTURE, PartitionProposal
from distsvc.models.mixture.population import PopulationRows, Quality, quality_of
from distsvc.models.rows.agreement import SAME_ANSWER, expected_rand_index, rand_indices
from distsvc.models.rows.sampling import row_keys
from distsvc.models.support_vector.level_tree.proposals import rand_index

SEPARATE = 0.65
"""Adjusted Rand index at or below which the clusters of a mixture overlap.

The index compares two partitions of the rows: each row in its likeliest cluster, and each row in a
random cluster, drawn with the row's posterior probabilities.
"""

REPLICATE_WORDS = 4
"""Number of 64-bit random words per row. Each bit is the row's sign in one simulated sample."""

SIGNIFICANT = 3.8
"""Minimum z statistic of a proposal that replaces the previous run's answer.

The chance of a false replacement in a year of 365 nights is then about 5 % (Bonferroni).
"""

SIGNS = 2
"""Salt of the first word of random signs. Each further word has the next higher salt."""

VIEW_WORDS = {GRAPH: "the neighbour graph", MIXTURE: "the mixture model"}


@dataclass(frozen=True)
class Alternative:
    """The proposal that another sample most probably prefers, if it does not prefer the answer."""

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
        """Expected share of rows in a wrong cluster, from the rows' posterior probabilities.

        None for one cluster, or if clusters hardly overlap: labels drawn by these probabilities
        then have an expected adjusted Rand index above `SAME_ANSWER` with the answer.
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
                "One cluster fits the table at least as well as several clusters, compared by BIC. "
                "Columns may depend on each other within a cluster."
            )
        return (
            f"The clusters of {VIEW_WORDS[self.best.view]} fit the table best, compared by BIC. "
            "Columns may depend on each other within a cluster."
        )


def decide(
    mixtures: Mixtures,
    graph: Sequence[PartitionProposal],
    row_numbers: np.ndarray,
    n_clusters: int | None,
    previous_labels: np.ndarray | None,
    all_rows: Callable[[], PopulationRows],
) -> ViewDecision:
    """Choose the answer among the proposals of `mixtures` and of the `graph`.

    `PartitionProposal.measure` has set the qualities of all proposals. With `n_clusters`, only the
    proposals with the most clusters are compared. Random signs are keyed by
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
    doubled, because the pilot and the simulated sample are both random. If
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
    """Return the proposal most like the previous labels (m,); None if all differ too much."""
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
