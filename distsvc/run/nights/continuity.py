"""Cluster ids that continue those of earlier runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial

import numpy as np

from distsvc.errors import OutputPermissionError
from distsvc.job.config import ContinuityConfig
from distsvc.models.nights.continuity import (
    MATCHED_ROWS,
    LabelOverlap,
    Return,
    match_clusters,
    match_returned,
    rows_in_ranges,
)
from distsvc.models.nights.drift import counts_between, decile_edges, unit_factors
from distsvc.models.rows.scaling import MAX_ROW_LENGTH
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
UNCLAIMED = "unclaimed"
"""Fact: the reason why new ids could not be claimed."""


def ids_of(
    steps: Steps,
    rule: Rule,
    survey: Survey,
    config: ContinuityConfig,
    lineage: Lineage | None = None,
) -> Ids:
    """Return the ids of a rule's clusters; matched clusters keep the previous run's ids.

    The fate of that run's clusters is written as the result `LINEAGE`. New ids are claimed in the
    record of the `lineage`, so that no other run uses them.
    """
    run = steps.run
    if not run.has(PREVIOUS + RULE):
        if lineage is not None:
            with suppress(OutputPermissionError):  # a later run claims from its own ids on
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
    """Match the clusters of both rules on rows of the sample."""
    before = Labeller.read(run, PREVIOUS)
    ids_before = before.ids.tolist()
    shared, scores = _in_common(run, rule, survey, PREVIOUS)
    numbered = partial(match_clusters, ids_before, shared=shared, match=config.min_overlap)
    found, facts = numbered(before.next_id), Facts()
    new = np.flatnonzero(found.ids >= before.next_id).tolist()
    if new and lineage is not None:
        back = _returned(run, rule, survey, config, lineage, set(ids_before), new)
        n_new, first = len(new) - len(back), before.next_id
        try:
            first = lineage.claim(n_new, first) if n_new else first
        except OutputPermissionError as error:
            facts = {UNCLAIMED: str(error)}
        found = numbered(first, returned=back)
    facts |= {
        "next_id": found.next_id,
        "rows": int(found.overlap.sum()),
        "moved": found.moved(ids_before),
        "clusters": [asdict(story) for story in found.stories],
        "before": ids_before,
    }
    arrays = {"ids": found.ids, "overlap": shared.overlap, "scores": scores}
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
    """Return the `new` clusters, by label, that a run before the previous one had.

    Up to ``continuity.memory`` earlier runs are compared, the latest first.
    """
    found: dict[int, Return] = {}
    assert lineage.previous is not None
    for number, (store, _) in enumerate(earlier_runs(lineage.previous, config.memory)):
        left = [label for label in new if label not in found]
        if not left:
            break
        folder, of = checked_model(store), f"earlier-{number}-"
        restore_model(read_model(folder), folder, run, of)
        ids = Labeller.read(run, of).ids.tolist()
        wanted = set(ids) - known
        if wanted:
            shared, _ = _in_common(run, rule, survey, of)
            within = _within(run, rule, survey, of)
            found |= match_returned(ids, wanted, left, shared, within, config.min_overlap)
        known |= set(ids)
    return found


def _in_common(
    run: RunDirectory, rule: Rule, survey: Survey, of: str
) -> tuple[LabelOverlap, np.ndarray]:
    """Return the overlap of a rule's clusters with an earlier model's, on rows of the sample.

    Also return the counts (bins,) int64 of the earlier model's scores. `of` is its prefix.
    """
    before = Labeller.read(run, of)
    k, k_before = rule.n_clusters, before.rule.n_clusters
    overlap, inside = (np.zeros((k_before, k), np.int64) for _ in range(2))
    scores = np.zeros(len(before.score_edges) - 1, np.int64)
    for own, Z in _prepared(run, survey, of):
        then = before.rule.label(Z)
        pairs = then["label"].astype(np.int64) * k + rule.labels(own)
        for total, of_pairs in (overlap, pairs), (inside, pairs[~then["outlier"]]):
            total += np.bincount(of_pairs, minlength=k_before * k).reshape(k_before, k)
        scores += counts_between(then["score"], before.score_edges)
    counts = run.read(of + COUNTED).arrays["cluster_counts"]
    return LabelOverlap(overlap, inside, counts), scores


def _within(run: RunDirectory, rule: Rule, survey: Survey, of: str) -> np.ndarray:
    """Return (k_before, k) bool: an earlier cluster's typical row lies in the range of a cluster.

    The range of a cluster's rows, without outliers, is compared in every column.
    """
    typical = Labeller.read(run, of).typical.values
    low = np.full((rule.n_clusters, typical.shape[1]), np.inf)
    high = -low
    for own, Z in _prepared(run, survey, of):
        now = rule.label(own)
        for label in np.unique(now["label"]):
            rows = Z[(now["label"] == label) & ~now["outlier"]]
            low[label] = np.minimum(low[label], rows.min(axis=0, initial=np.inf))
            high[label] = np.maximum(high[label], rows.max(axis=0, initial=-np.inf))
    return rows_in_ranges(low, high, typical)


def _prepared(
    run: RunDirectory, survey: Survey, of: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows of the sample, prepared for the run's rule and for an earlier model's.

    Rows that one of the rules can't take are skipped.
    """
    own, other = Preparation.read(run), Preparation.read(run, of + PREPARATION)
    places = Labeller.read(run, of).places(run.plan.table.columns)
    for X in raw_sample(run, survey.n_rows, MATCHED_ROWS):
        Z = own(X), other(np.ascontiguousarray(X[:, places]))
        usable = np.logical_and(*(_usable(rows) for rows in Z))
        yield Z[0][usable], Z[1][usable]


def labels_before(run: RunDirectory, survey: Survey) -> np.ndarray | None:
    """Return the labels (m,) int32 of the pilot by the previous rule; 0 for unusable rows.

    None if the previous model does not describe the table. Then a column is in another unit, or
    more than half of the rows are unusable or outside.
    """
    before = Labeller.read(run, PREVIOUS)
    pilot = np.ascontiguousarray(survey.pilot[:, before.places(run.plan.table.columns)])
    if not np.isnan(unit_factors(before.column_edges, decile_edges(pilot))).all():
        return None
    Z = Preparation.read(run, PREVIOUS + PREPARATION)(pilot)
    usable, labels = _usable(Z), np.zeros(len(Z), np.int32)
    found = before.rule.label(Z[usable])
    labels[usable] = found["label"]
    described = np.count_nonzero(~found["outlier"])
    return labels if 2 * described >= len(Z) else None


def _usable(Z: np.ndarray) -> np.ndarray:
    """Return a mask of the prepared rows (n, d) that a rule can take."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    return np.isfinite(squares) & (squares <= (2.0 * MAX_ROW_LENGTH) ** 2)
