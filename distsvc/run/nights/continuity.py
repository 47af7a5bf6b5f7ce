"""Cluster ids that continue those of another run, and the lineage of its clusters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from distsvc.errors import OutputPermissionError
from distsvc.job.config import ContinuityConfig
from distsvc.models.nights.continuity import MATCHED_ROWS, Return, continued, returning
from distsvc.models.rows.validation import LONGEST
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.run.labelling.labeller import COUNTED, PREVIOUS, RULE, Ids, Labeller
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.learning.stream import raw_sample
from distsvc.run.learning.survey import Survey
from distsvc.run.model.files import checked_model, read_model, restore_model
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.storage.publishing.lineages import Lineage, earlier_runs

LINEAGE = "lineage"
EARLIER = "earlier-"
"""The beginning of the names of results of runs before the last one."""
UNCLAIMED = "unclaimed"
"""The fact that says why new ids could not be claimed."""


def ids_of(
    steps: Steps,
    rule: Rule,
    survey: Survey,
    config: ContinuityConfig,
    lineage: Lineage | None = None,
) -> Ids:
    """Return the ids of a rule's clusters, which continue those of another run if there is one.

    The story of that one's clusters is kept as the result `LINEAGE`. Ids that are new are claimed
    in the record of the `lineage`, so that no other run gives them.
    """
    run = steps.run
    if not run.has(PREVIOUS + RULE):
        if lineage is not None:
            with suppress(OutputPermissionError):  # a later run claims from its own on
                lineage.claim(rule.n_clusters, 0)
        return Ids.first(rule.n_clusters)
    with steps.progress.phase("match"):
        if not run.has(LINEAGE):
            _write_lineage(run, rule, survey, config, lineage)
        found = run.read(LINEAGE)
    return Ids(found.arrays["ids"], found.facts["next_id"])


def _write_lineage(
    run: RunDirectory,
    rule: Rule,
    survey: Survey,
    config: ContinuityConfig,
    lineage: Lineage | None,
) -> None:
    """Label rows of the sample by both rules and match their clusters."""
    before = Labeller.read(run, PREVIOUS)
    ids_before = before.ids.tolist()
    sizes = run.read(PREVIOUS + COUNTED).arrays["cluster_counts"].sum(axis=1)
    common = _in_common(run, rule, survey, PREVIOUS)
    numbered = partial(
        continued, ids_before, overlap=common.overlap, match=config.match, inside=common.inside,
        sizes_before=sizes,
    )  # fmt: skip
    found, told = numbered(before.next_id), {}
    new = np.flatnonzero(found.ids >= before.next_id).tolist()
    if new and lineage is not None:
        back = _returned(run, rule, survey, config, lineage, set(ids_before), new)
        n_new, first = len(new) - len(back), before.next_id
        try:
            first = lineage.claim(n_new, first) if n_new else first
        except OutputPermissionError as error:
            told = {UNCLAIMED: str(error)}
        found = numbered(first, returned=back)
    facts: Facts = told | {
        "next_id": found.next_id,
        "rows": int(found.overlap.sum()),
        "moved": found.moved(ids_before),
        "clusters": [asdict(story) for story in found.stories],
        "before": ids_before,
    }
    arrays = {"ids": found.ids, "overlap": common.overlap, "scores": common.scores}
    run.write(LINEAGE, Result(facts, arrays))


def _returned(
    run: RunDirectory,
    rule: Rule,
    survey: Survey,
    config: ContinuityConfig,
    lineage: Lineage,
    known: set[int],
    new: Sequence[int],
) -> dict[int, Return]:
    """Return which new clusters, by label, were those of a run before the last one.

    At most as many runs are looked at as a cluster may have been gone. The later ones come first.
    """
    found: dict[int, Return] = {}
    assert lineage.previous is not None
    for number, (store, _) in enumerate(earlier_runs(lineage.previous, config.memory)):
        left = [label for label in new if label not in found]
        if not left:
            break
        folder, of = checked_model(store), f"{EARLIER}{number}-"
        restore_model(read_model(folder), folder, run, of)
        ids = Labeller.read(run, of).ids.tolist()
        wanted = set(ids) - known
        if wanted:
            inside = _in_common(run, rule, survey, of).inside
            found |= returning(ids, wanted, left, inside, config.match)
        known |= set(ids)
    return found


@dataclass(frozen=True)
class _Common:
    """Rows that an earlier model and a new one label, by their clusters (k_before, k) int64.

    `inside` are those that are no outliers of the earlier one, `scores` (bins,) the counts of what
    it gives them.
    """

    overlap: np.ndarray
    inside: np.ndarray
    scores: np.ndarray


def _in_common(run: RunDirectory, rule: Rule, survey: Survey, of: str) -> _Common:
    """Label rows of the sample by a rule and by an earlier model's, whose results begin with `of`.

    Rows that one of them can't take are left out.
    """
    before = Labeller.read(run, of)
    own = Preparation.read(run)
    other = Preparation.read(run, of + PREPARATION)
    places = before.places(run.plan.table.columns)
    k, k_before = rule.n_clusters, before.rule.n_clusters
    overlap, inside = (np.zeros((k_before, k), np.int64) for _ in range(2))
    scores = np.zeros(len(before.score_edges) - 1, np.int64)
    for X in raw_sample(run, survey.n_rows, MATCHED_ROWS):
        Z = own(X), other(np.ascontiguousarray(X[:, places]))
        usable = np.logical_and(*(_usable(rows) for rows in Z))
        labels = rule.labels(Z[0][usable])
        then = before.rule.label(Z[1][usable])
        pairs = then["label"].astype(np.int64) * k + labels
        for counts, of_pairs in (overlap, pairs), (inside, pairs[~then["outlier"]]):
            counts += np.bincount(of_pairs, minlength=k_before * k).reshape(k_before, k)
        edges = before.score_edges
        scores += np.histogram(np.clip(then["score"], edges[0], edges[-1]), edges)[0]
    return _Common(overlap, inside, scores)


def labels_before(run: RunDirectory, survey: Survey) -> np.ndarray:
    """Return the labels (m,) int32 of the pilot's rows by the rule of the run before.

    Rows that it can't take have the label 0.
    """
    before = Labeller.read(run, PREVIOUS)
    places = before.places(run.plan.table.columns)
    pilot = np.ascontiguousarray(survey.pilot[:, places])
    Z = Preparation.read(run, PREVIOUS + PREPARATION)(pilot)
    usable, labels = _usable(Z), np.zeros(len(Z), np.int32)
    labels[usable] = before.rule.labels(Z[usable])
    return labels


def _usable(Z: np.ndarray) -> np.ndarray:
    """Return which prepared rows (n, d) a rule may be given."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    return np.isfinite(squares) & (squares <= (2.0 * LONGEST) ** 2)
