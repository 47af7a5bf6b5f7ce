"""Joined rules: rules whose clusters were merged, because they are too small or too many.

A joined rule has all fields of its base rule, and a further array: the merged cluster of each base
cluster. It is saved and restored like other rules.
"""

from collections.abc import Mapping
from dataclasses import fields, make_dataclass
from functools import cache, cached_property
from typing import Annotated, Any

import numpy as np

from distsvc.errors import DataError
from distsvc.models.rules.fields import ClustersField
from distsvc.models.rules.rule import Rule, Typical

INTO = "joined_into"


@cache
def joined_form(base: type[Rule]) -> type[Rule]:
    """Return the class of the joined rules whose base rules are of class `base`."""
    into = (INTO, Annotated[np.ndarray, ClustersField("int32", "joined")])
    own = {"form": f"joined-{base.form}", "made_of": base, "quick_pulls": False}
    name = f"Joined{base.__name__}"
    return make_dataclass(
        name, [into], bases=(_Joined, base), namespace=own, frozen=True, kw_only=True
    )


def joined(rule: Rule, into: np.ndarray) -> Rule:
    """Return a rule that labels rows as `rule` does, with cluster c merged into ``into[c]``.

    `into` (k,) are integers from 0 without gaps.
    """
    return joined_form(type(rule))(**rule.field_values(), **{INTO: into.astype(np.int32)})


class _Joined:
    """Methods of joined rules: each calls the base rule and merges the result's clusters."""

    made_of: type[Rule]  # class of the base rule
    joined_into: np.ndarray  # (k,) int32: merged cluster of each cluster of the base rule

    @cached_property
    def parts(self) -> Rule:
        known = {one.name: getattr(self, one.name) for one in fields(self.made_of)}  # type: ignore[arg-type]
        return self.made_of(**known)

    @property
    def n_clusters(self) -> int:
        return int(self.joined_into.max()) + 1

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        found = self.parts.label(Z)
        return found | {"label": self.joined_into[found["label"]]}

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self.joined_into[self.parts.labels(Z)]

    def shares(self, Z: np.ndarray) -> np.ndarray:
        found = self.parts.shares(Z)
        total = np.zeros((len(found), self.n_clusters), np.float32)
        for part, cluster in enumerate(self.joined_into):
            total[:, cluster] += found[:, part]
        return total

    def pulls(
        self, Z: np.ndarray, labels: np.ndarray, typical: Typical, firsts: np.ndarray
    ) -> np.ndarray:
        return Rule.pulls(self, Z, labels, typical, firsts)  # type: ignore[arg-type]

    @classmethod
    def restored(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], d: int | None = None
    ) -> Any:
        # The saved number is of the merged clusters; the base rule has an entry of INTO for each.
        own = {"n_clusters": arrays[INTO].size} if INTO in arrays else {}
        return super().restored({**facts, **own}, arrays, d)  # type: ignore[misc]

    def check(self) -> None:
        self.parts.check()
        if len(self.joined_into) != self.parts.n_clusters:
            raise DataError(
                f"array {INTO}: expected {self.parts.n_clusters} clusters, found "
                f"{len(self.joined_into)}"
            )

    def __reduce__(self) -> Any:
        return joined, (self.parts, self.joined_into)


MIN_MEAN_SHARE = 0.01
"""Minimum mean share of a cluster in a small cluster's rows, if the small one is merged into it.

If no cluster reaches this share, the small one is merged into the cluster with the nearest median.
"""


def clusters_to_join(
    rule: Rule, Z: np.ndarray, max_clusters: int | None, min_rows: float
) -> np.ndarray | None:
    """Return the merged cluster (k,) int32 of each cluster of a rule; None if none is merged.

    The smallest cluster is merged into another while it has fewer than `min_rows` of the rows
    Z (m, d), or while more than `max_clusters` are left. It is merged into the cluster in which
    its rows have the highest mean share. If no mean share reaches `MIN_MEAN_SHARE`, it is merged
    into the cluster with the nearest median. Merged clusters are numbered by size, from 0 for the
    largest.
    """
    k = rule.n_clusters
    labels, most = rule.labels(Z), k if max_clusters is None else max_clusters
    counts = np.bincount(labels, minlength=k).astype(np.float64)
    into, left = np.arange(k), k
    if left <= most and counts.min() >= min_rows:
        return None
    shares, apart = _shares(rule, Z, labels), _distances(rule.seen(Z), labels, k)
    while left > 1:
        there = np.unique(into)
        small = there[counts[there].argmin()]
        if left <= most and counts[small] >= min_rows:
            break
        others = there[there != small]
        near = others[shares[small, others].argmax()]
        if shares[small, near] < MIN_MEAN_SHARE * counts[small]:
            near = others[apart[small, others].argmin()]
        into[into == small] = near
        counts[near] += counts[small]
        shares[near] += shares[small]
        shares[:, near] += shares[:, small]
        apart[near] = apart[:, near] = np.minimum(apart[near], apart[small])
        left -= 1
    if left == k:
        return None
    there = np.unique(into)
    order = there[np.argsort(-counts[there], kind="stable")]
    number = np.zeros(k, np.int32)
    number[order] = np.arange(left)
    return number[into]


def _shares(rule: Rule, Z: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return sums (k, k) of shares; all are 0 if the rule has no shares.

    Entry (i, j) is the sum of the shares of cluster j in the rows with label i.
    """
    total = np.zeros((rule.n_clusters, rule.n_clusters))
    if rule.shared:
        np.add.at(total, labels, rule.shares(Z).astype(np.float64))
    return total


def _distances(rows: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Return distances (k, k) of cluster medians; an empty cluster has the median of all rows."""
    members = [rows[labels == c] for c in range(k)]
    middles = np.array([np.median(one if len(one) else rows, axis=0) for one in members])
    return np.linalg.norm(middles[:, None].astype(np.float64) - middles, axis=2)
