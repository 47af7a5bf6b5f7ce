"""Whether clusters keep their ids from night to night, in made-up worlds and in real tables.

Every night's table is learned anew, by the default algorithm, and goes on from the night before
(`[continuity] previous`). The same clusters are numbered by size as well, as they are without
continuity, and by the nearest centroid.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score

from benchmarks.datasets.loading import load
from benchmarks.harness.measure import in_processes, publish
from benchmarks.harness.rows import Row, grouped, mean_of, show
from benchmarks.harness.runs import work_folder
from benchmarks.nights.numbering import ByCentroid, Runs, by_size, without_pages
from benchmarks.nights.world import MadeNight, known, nearest, nights_of
from distsvc.models.nights.continuity import LabelOverlap, match_clusters

NIGHTS = 60
PROCESSES = 2
WAYS = ("continuity", "by size", "nearest centroid", "continuity, true clusters")

REAL = ("kddcup", "shuttle", "pendigits", "satimage", "letter", "magic")
REAL_NIGHTS, REAL_ROWS = 20, 20_000
STAYING = 0.5
"""Share of a night's rows that are in the next night, too."""


@dataclass
class Score:
    """How many rows have the id of the truth, night after night.

    A published id stands for the component that most of its rows are of on the night when it first
    appears, and for that one ever after. An id is false where that component had one and did not
    split that night; rows are strictly right under the first id of their component only.
    """

    meaning: dict[int, int] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    right: int = 0
    strict: int = 0
    rows: int = 0
    false_ids: int = 0

    def add(self, ids: np.ndarray, night: MadeNight) -> None:
        """Count a night's published ids (n,)."""
        for one in np.unique(ids).tolist():
            if one in self.meaning:
                continue
            truth = int(np.bincount(night.ids[ids == one]).argmax())
            self.meaning[one] = truth
            if truth not in self.first:
                self.first[truth] = one
            elif truth not in night.parted:
                self.false_ids += 1
        means = np.array([self.meaning.get(one, -1) for one in range(int(ids.max()) + 1)])[ids]
        firsts = np.array([self.first.get(one, -1) for one in range(int(night.ids.max()) + 1)])
        self.right += int((means == night.ids).sum())
        self.strict += int((firsts[night.ids] == ids).sum())
        self.rows += len(ids)

    def row(self) -> Row:
        """Return the shares, false ids and how many ids were given."""
        return {
            "right": self.right / self.rows,
            "strictly_right": self.strict / self.rows,
            "false_new_ids": self.false_ids,
            "ids": len(self.meaning),
        }


class TrueClusters:
    """Ids of clusters that no learner can get wrong: a night's likeliest components.

    What is wrong with them is the matching's fault, or the overlap's.
    """

    def __init__(self, match: float) -> None:
        self.match = match
        self.before: MadeNight | None = None
        self.ids_before: list[int] = []
        self.counts = np.empty((0, 2), np.int64)
        self.next_id = 0

    def ids(self, night: MadeNight) -> np.ndarray:
        """Return the id (n,) of every row of a night."""
        now, k = nearest(night.X, night.components), len(night.components)
        if self.before is None:
            ids, self.next_id = np.arange(k), k
        else:
            pairs = nearest(night.X, self.before.components) * k + now
            within = pairs[known(night.X, self.before.components)]
            overlap, inside = (
                np.bincount(of, minlength=len(self.ids_before) * k).reshape(-1, k)
                for of in (pairs, within)
            )
            shared = LabelOverlap(overlap, inside, self.counts)
            found = match_clusters(self.ids_before, self.next_id, shared, self.match)
            ids, self.next_id = found.ids, found.next_id
        outside = ~known(night.X, night.components)
        self.counts = np.bincount(2 * now + outside, minlength=2 * k).reshape(k, 2)
        self.before, self.ids_before = night, ids.tolist()
        return ids[now]


def nights(options: Namespace) -> None:
    """Rows with the true id in 60 nights of drifting, splitting, merging Gaussians, and false ids.

    A world for each of `--seeds`. `clustered` is the share of rows that the learner's clusters have
    in common with the components, one to one, whatever their ids: no numbering can do much better.
    `late` is the most nights in a row on which there were fewer or more clusters than components.
    """
    with work_folder(options.work) as work:
        tasks = [(seed, work / f"nights-{seed}", options.match) for seed in range(options.seeds)]
        figures: list[Row] = []
        for rows in in_processes(one_world, tasks, PROCESSES):
            figures += rows
            show("A world", rows)
    means = [
        {"way": way}
        | {name: mean_of(row[name] for row in alike) for name in MEASURES}
        | {"late": max(row["late"] for row in alike)}
        for (way,), alike in grouped(figures, ("way",)).items()
    ]
    show(f"{NIGHTS} nights; bars: right >= .99, late <= 1", means)
    publish(options.out, "nights", figures)


MEASURES = ("right", "strictly_right", "false_new_ids", "ids", "clustered")


def one_world(seed: int, folder: Path, match: float) -> list[Row]:
    """Return the row of every way to number the clusters of one world."""
    scores = {way: Score() for way in WAYS}
    runs, centroids, true = Runs(folder, match), ByCentroid(), TrueClusters(match)
    clustered, late, most_late = [], 0, 0
    with without_pages():
        for number, night in enumerate(nights_of(seed, NIGHTS)):
            ids, _ = runs.ids(night.X, number)
            found = ids, by_size(ids), centroids.ids(night.X, ids), true.ids(night)
            for way, one in zip(WAYS, found, strict=True):
                scores[way].add(one, night)
            clustered.append(shared(ids, night.ids))
            late = late + 1 if len(np.unique(ids)) != len(np.unique(night.ids)) else 0
            most_late = max(most_late, late)
            if number % 20 == 19:
                print(f"world {seed}: {number + 1} nights", file=sys.stderr, flush=True)
    common = {"clustered": float(np.mean(clustered)), "late": most_late}
    return [{"seed": seed, "way": way, "match": match} | scores[way].row() | common for way in WAYS]


def shared(labels: np.ndarray, truth: np.ndarray) -> float:
    """Return the largest share of rows that clusters and components have in common, one to one."""
    _, a = np.unique(labels, return_inverse=True)
    _, b = np.unique(truth, return_inverse=True)
    k = int(b.max()) + 1
    table = np.bincount(a * k + b, minlength=(int(a.max()) + 1) * k).reshape(-1, k)
    pairs = linear_sum_assignment(table, maximize=True)
    return float(table[pairs].sum() / len(labels))


def nights_real(options: Namespace) -> None:
    """Rows of real tables that keep their id from night to night, in 20 nights that overlap.

    A night has half of its rows in common with the one before, and another seed. `kept` is the
    share of those rows that keep their id; `same_cluster` that of the rows in the clusters, matched
    one to one, that have most rows in common: no numbering can keep more. `nmi` is the agreement
    with the known classes, in the mean of all nights. Nights that go on from each other prefer the
    clusters of the night before, or are learned `alone`.
    """
    figures: list[Row] = []
    with work_folder(options.work) as work:
        names = options.sets or REAL
        tasks = [
            (options.data, name, work / f"nights-{name}-{alone}", options.match, alone)
            for name in names
            for alone in (False, True)
        ]
        for rows in in_processes(one_table, tasks, PROCESSES):
            figures += rows
            show("A table", rows)
    publish(options.out, "nights_real", figures)


def one_table(data: Path, name: str, folder: Path, match: float, alone: bool) -> list[Row]:
    """Return the row of every way to number the clusters of one table."""
    X, truth = load(name, data)[:2]
    X = X.astype(np.float64)
    order = np.random.default_rng(0).permutation(len(X))
    size = min(REAL_ROWS, len(X) // 2)
    step = int((1.0 - STAYING) * size)
    runs, centroids, ways = Runs(folder, match, alone), ByCentroid(), WAYS[:3]
    kept: dict[str, list[float]] = {way: [] for way in ways}
    before: dict[str, np.ndarray] = {}
    given: dict[str, set[int]] = {way: set() for way in ways}
    best, clusters, moved, nmi = [], [], [], []
    with without_pages():
        for number in range(REAL_NIGHTS):
            rows = order[(number * step + np.arange(size)) % len(X)]
            ids, report = runs.ids(X[rows], number)
            found = dict(zip(ways, (ids, by_size(ids), centroids.ids(X[rows], ids)), strict=True))
            nmi.append(float(normalized_mutual_info_score(truth[rows], ids)))
            common = size - step
            for way in ways:
                given[way] |= set(np.unique(found[way]).tolist())
                if before:
                    same = before[way][step:] == found[way][:common]
                    kept[way].append(float(same.mean()))
            if before:
                best.append(shared(before[ways[0]][step:], found[ways[0]][:common]))
                moved.append(report["lineage"]["moved"])
            before = found
            clusters.append(len(report["clusters"]))
            print(f"{name}: night {number + 1}", file=sys.stderr, flush=True)
    common_facts = {
        "same_cluster": float(np.mean(best)),
        "nmi": float(np.mean(nmi)),
        "moved_by_lineage": float(np.mean(moved)),
        "fewest_clusters": min(clusters),
        "most_clusters": max(clusters),
        "rows": size,
    }
    return [
        {"set": name, "alone": alone, "way": way, "match": match,
         "kept": float(np.mean(kept[way])), "worst": min(kept[way]), "ids": len(given[way])}
        | common_facts
        for way in ways
    ]  # fmt: skip
