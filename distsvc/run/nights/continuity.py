"""Cluster ids that continue those of another run, and the lineage of its clusters."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from distsvc.models.nights.continuity import MATCHED_ROWS, continued
from distsvc.models.rows.validation import LONGEST
from distsvc.models.rules.rule import Rule
from distsvc.run.labelling.labeller import COUNTED, PREVIOUS, RULE, Ids, Labeller
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.learning.stream import raw_sample
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Steps

LINEAGE = "lineage"


def ids_of(steps: Steps, rule: Rule, survey: Survey, match: float) -> Ids:
    """Return the ids of a rule's clusters, which continue those of another run if there is one.

    The lineage of that one's clusters is kept as the result `LINEAGE`.
    """
    run = steps.run
    if not run.has(PREVIOUS + RULE):
        return Ids.first(rule.n_clusters)
    with steps.progress.phase("match"):
        if not run.has(LINEAGE):
            _write_lineage(run, rule, survey, match)
        found = run.read(LINEAGE)
    return Ids(found.arrays["ids"], found.facts["next_id"])


def _write_lineage(run: RunDirectory, rule: Rule, survey: Survey, match: float) -> None:
    """Label rows of the sample by both rules and match their clusters."""
    before = Labeller.read(run, PREVIOUS)
    own = Preparation.read(run)
    other = Preparation.read(run, PREVIOUS + PREPARATION)
    places = before.places(run.plan.table.columns)
    k, k_before = rule.n_clusters, before.rule.n_clusters
    overlap, inside = (np.zeros((k_before, k), np.int64) for _ in range(2))
    scores = np.zeros(len(before.score_edges) - 1, np.int64)
    for X in raw_sample(run, survey.n_rows, MATCHED_ROWS):
        Z = own(X), other(np.ascontiguousarray(X[:, places]))
        usable = np.logical_and(*(_usable(rows) for rows in Z))
        labels = rule.label(Z[0][usable])["label"]
        then = before.rule.label(Z[1][usable])
        pairs = then["label"].astype(np.int64) * k + labels
        for counts, of in (overlap, pairs), (inside, pairs[~then["outlier"]]):
            counts += np.bincount(of, minlength=k_before * k).reshape(k_before, k)
        edges = before.score_edges
        scores += np.histogram(np.clip(then["score"], edges[0], edges[-1]), edges)[0]
    ids_before = before.ids.tolist()
    sizes = run.read(PREVIOUS + COUNTED).arrays["cluster_counts"].sum(axis=1)
    found = continued(ids_before, before.next_id, overlap, match, inside, sizes)
    facts = {
        "next_id": found.next_id,
        "rows": int(found.overlap.sum()),
        "moved": found.moved(ids_before),
        "clusters": [asdict(story) for story in found.stories],
        "before": ids_before,
    }
    run.write(LINEAGE, Result(facts, {"ids": found.ids, "overlap": overlap, "scores": scores}))


def _usable(Z: np.ndarray) -> np.ndarray:
    """Return which prepared rows (n, d) a rule may be given."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    return np.isfinite(squares) & (squares <= (2.0 * LONGEST) ** 2)
