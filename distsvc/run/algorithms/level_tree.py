"""Support vector clustering by trees of level sets, with a vote of the models.

1. ``views``, for wide tables only: one pass stores the sample projected on the models' directions,
   so that wide rows are not read again.
2. ``learn``: each model is a task. It streams the sample, grows a tree of level sets, and tests its
   splits on rows of the sample.
3. ``vote``: the driver chooses a cut by the votes of the models.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from distsvc.errors import things
from distsvc.job.config import Job
from distsvc.job.parameters import Given
from distsvc.models.automatic.previous import PreviousAnswer
from distsvc.models.nights.continuity import MATCHED_ROWS
from distsvc.models.rows import sampling
from distsvc.models.rows.sampling import Ranges, key_threshold
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary.labelling import DecisionFunction, Nearest
from distsvc.models.support_vector.level_tree.directions import MOST_COMPONENTS
from distsvc.models.support_vector.level_tree.engine import Grown, LevelTreeEngine
from distsvc.models.support_vector.level_tree.ensemble import (
    BUDGET,
    MOST_STEPS,
    Ensemble,
    steps_of_member,
)
from distsvc.models.support_vector.level_tree.level_sets import NEARLY, LevelSets
from distsvc.models.support_vector.level_tree.proposals import REFERENCE_ROWS
from distsvc.models.support_vector.level_tree.rule import LevelRule
from distsvc.models.support_vector.level_tree.tree import LevelTree
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.model_parts import (
    Branch,
    CandidatePart,
    Granularity,
    LevelModel,
    LevelsPart,
    LevelTreePart,
)
from distsvc.run.algorithms.algorithm import AlgorithmJob, Parts, PilotRows
from distsvc.run.algorithms.boundary import domain_part
from distsvc.run.learning.preparation import learner_rows
from distsvc.run.learning.stream import Memory, Sizes, keyed_blocks, sample_blocks, stream_memory
from distsvc.run.learning.survey import (
    SampleBuffer,
    Survey,
    gather,
    gathered,
    keyed_rows,
    learned_blocks,
    parts,
)
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.run.work.workers.cluster import driver_threads
from distsvc.storage.rows.blocks import Table

ENSEMBLE = "ensemble"

WIDE = 2 * MOST_COMPONENTS
"""Number of columns above which the phase ``views`` stores projected rows before training."""

SUMS = "sums"


@dataclass(frozen=True)
class Training:
    """Input of the training tasks: the models to train, and the sample's rows."""

    ensemble: Ensemble
    n_rows: int  # rows of the table
    ranges: Ranges  # keys of the rows to learn from
    viewed: bool  # whether the phase ``views`` has stored the projected rows
    view: np.ndarray  # (m, q) float32: the projected pilot

    @classmethod
    def read(cls, run: RunDirectory) -> Self:
        found = run.read(ENSEMBLE)
        known, arrays = found.facts, found.arrays
        ensemble = Ensemble.restored(known["ensemble"], arrays["components"])
        ranges = [(low, high) for low, high in known["ranges"]]
        return cls(ensemble, known["n_rows"], ranges, known["viewed"], arrays["view"])

    def write(self, run: RunDirectory) -> None:
        facts = {"ensemble": self.ensemble.facts(), "n_rows": self.n_rows, "ranges": self.ranges}
        arrays = {"components": self.ensemble.components, "view": self.view}
        run.write(ENSEMBLE, Result(facts | {"viewed": self.viewed}, arrays))

    def buffer(self) -> SampleBuffer:
        last = key_threshold(self.n_rows, self.ensemble.sample_rows) - 1
        return SampleBuffer(len(self.ensemble.components), "float32", last=last)

    def blocks(
        self, run: RunDirectory, epoch: int, ranges: Ranges, first: int
    ) -> Iterator[np.ndarray]:
        """Yield blocks (n, q) float32 of the sample, projected on the models' directions.

        The rows of a block are shuffled by `epoch`. The first block has number `first`.
        """
        if self.viewed:
            kept = [keyed_rows(run, name) for name in parts(run, PROJECT, GATHER_VIEWS)]
            yield from keyed_blocks(
                kept, lambda rows, _: rows, ranges, self.ensemble.seed, epoch, first
            )
            return
        for block in sample_blocks(run, ranges, self.ensemble.seed, epoch, first):
            yield self.ensemble.view(block)


def view_partition(run: RunDirectory, number: int) -> Result:
    """Return the sample's rows of a partition, projected on the models' directions, by key."""
    training, n_rows = Training.read(run), 0
    ensemble, kept = training.ensemble, training.buffer()
    for block, keys in learned_blocks(run, number):
        n_rows += len(block.rows)
        wanted = kept.wants(keys)
        X = block.X if wanted.all() else block.X[wanted]
        kept.add(ensemble.view(learner_rows(run, X, keys[wanted])), keys[wanted])
    return Result(large=kept.arrays(), rows=n_rows)


def gather_views(run: RunDirectory, number: int) -> Result:
    """Merge the projected samples of neighbouring partitions, in the order of keys."""
    return gathered(run, PROJECT, number, Training.read(run).buffer())


PROJECT = Phase("views", view_partition)
GATHER_VIEWS = Phase("gather-views", gather_views)


class LevelTrees(AlgorithmJob):
    """Level trees as a job: an ensemble of models, and their vote."""

    rules = (LevelRule,)
    engine: LevelTreeEngine

    def __init__(self, parameters: Given, engine: LevelTreeEngine, job: Job, table: Table):
        super().__init__(parameters, engine)
        engine.n_jobs = driver_threads()
        self.viewed = engine.parameters.gamma == "auto" and len(table.columns) > WIDE
        self.matched_rows = MATCHED_ROWS if job.continuity.previous else 1
        self.readings = (PROJECT.name,) if self.viewed else ()

    def sample_ranges(self, n_rows: int) -> Ranges:
        # With projected rows, raw rows are needed only to match clusters with earlier ones.
        if not self.viewed:
            return self.engine.sample_ranges(n_rows)
        return sampling.key_blocks(n_rows, min(self.matched_rows, n_rows))

    def go_on_from(self, previous: PreviousAnswer) -> None:
        self.engine.previous_labels = previous.labels

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        engine, ensemble = self.engine, self.engine.ensemble
        n_rows, ranges = survey.n_rows, engine.key_ranges(survey.n_rows)
        Training(ensemble, n_rows, ranges, self.viewed, engine.view).write(steps.run)
        if self.viewed:
            steps.do(PROJECT)
            gather(steps, GATHER_VIEWS)
        grown = trees_of(steps.map(LEARN_MODELS, len(ensemble.members)))
        with steps.progress.phase("vote"):
            engine.choose(grown)
        return engine.rule

    def work(self, n_rows: int) -> dict[str, float]:
        return {LEARN_MODELS.name: float(steps_of_member(n_rows, self.engine.parameters.max_iter))}

    def memory(self, sizes: Sizes) -> Memory:
        # Projected rows of a partition exist twice while they are sorted. The rows that a model
        # learns from are memory-mapped.
        given, q = self.engine.parameters, min(sizes.n_columns, MOST_COMPONENTS)
        most = min(MOST_STEPS, given.max_iter)
        vectors = most if given.solver == "sgd" else given.budget or BUDGET
        model = {"support vectors": 8.0 * vectors * (q + 16)}
        if self.viewed:
            learned = min(given.max_iter, sizes.n_rows)
            rows = 2.0 * sizes.partition_rows + sizes.block_rows + learned
            return Memory(model, model | {"projected rows": 4.0 * q * rows})
        viewed = {"projected rows": 8.0 * q * sizes.block_rows}
        return Memory(model, stream_memory(sizes) | model | viewed)

    def parts(self, run: RunDirectory, pilot: PilotRows) -> Parts:
        domain = domain_part(run, self.engine, pilot.sample)
        return Parts(picture=domain, levels=levels_part(self.engine.levels))


def learn(run: RunDirectory, number: int) -> Result:
    """Train one model on the sample, in the model's own order; grow and test its tree."""
    training = Training.read(run)
    ensemble = training.ensemble
    blocks = partial(training.blocks, run)
    tree = ensemble.grow(number, training.view, training.ranges, blocks)
    return tree_result(tree, ensemble, ensemble.test(number, tree, training.n_rows, blocks))


LEARN_MODELS = Phase("learn", learn)


def tree_result(tree: LevelTree, ensemble: Ensemble, sums: np.ndarray) -> Result:
    """Return a trained tree and the sums of its test as a task's result; `trees_of` reads it."""
    arrays = {name: value for name, value in vars(tree).items() if isinstance(value, np.ndarray)}
    return Result({"gamma": tree.gamma}, arrays | {SUMS: sums}, rows=ensemble.steps)


def trees_of(results: Iterable[Result]) -> list[Grown]:
    """Return the trees that tasks trained, each with the sums (4, b) that test its branches."""
    sums = ((one, one.arrays.pop(SUMS)) for one in results)
    return [(LevelTree(gamma=one.facts["gamma"], **one.arrays), of_one) for one, of_one in sums]


def levels_part(
    found: LevelSets, numbers: np.ndarray | None = None, has_chance: bool = True
) -> LevelsPart:
    """Return the report's description of the models' vote and of the tree of level sets.

    `numbers` (k,) are the labels of the clusters, -1 for clusters without rows. If `has_chance`,
    the part states the probability that another sample gives these clusters.
    """
    if numbers is None:
        numbers = np.arange(found.answer.n_clusters)
    answer = found.answer
    members = zip(found.ensemble.members, found.trees, answer.supporters, strict=True)
    return LevelsPart(
        tree=_tree(found, numbers),
        models=[
            LevelModel(
                gamma=member.gamma,
                C=member.C,
                n_components=member.n_components,
                n_support_vectors=len(tree.a),
                n_splits=tree.n_branches - 1,
                supports=bool(supports),
                chosen=number == answer.member,
            )
            for number, (member, tree, supports) in enumerate(members)
        ],
        candidates=[CandidatePart.model_validate(row) for row in found.answer.candidates],
        granularity=[
            Granularity(
                name=name,
                n_clusters=other.n_clusters,
                support=other.support,
                rows=min(REFERENCE_ROWS[name], found.n_rows),
                chosen=name == found.granularity,
            )
            for name, other in found.answers.items()
        ],
        why=[*_why(found), *(_chance(found) if has_chance else ())],
        doubts=found.doubts(),
    )


def _tree(found: LevelSets, numbers: np.ndarray) -> LevelTreePart:
    """Return the report's description of the tree of level sets, with the root first.

    All branches that are clusters are listed, and the most significant of the other branches.
    """
    tree, kept = found.tree, found.answer.kept
    order = np.lexsort((-tree.z, ~kept))
    listed = order[: max(PAGE_LIMITS.branches, int(kept.sum()))]
    listed = listed[np.argsort(-tree.births[listed], kind="stable")]
    listed = listed[np.argsort(tree.parents[listed] >= 0, kind="stable")]
    rows = tree.seen(found.pilot)
    nearest = Nearest(np.ascontiguousarray(tree.S.T))(rows)
    heights = DecisionFunction(tree.S, tree.a, tree.gamma).sums(rows).astype(np.float64)
    top = float(max(tree.heights.max(), tree.births.max()))
    shown = set(listed.tolist())
    branches = []
    for branch in listed.tolist():
        parent = int(tree.parents[branch])
        while parent >= 0 and parent not in shown:
            parent = int(tree.parents[parent])
        is_root = tree.parents[branch] < 0
        reached = np.minimum(heights, _bottlenecks(tree, int(tree.peaks[branch]))[nearest])
        inside = reached if is_root else reached[reached > tree.deaths[branch]]
        inside = np.minimum(inside, tree.births[branch])
        label = int(numbers[found.part[tree.peaks[branch]]]) if kept[branch] else -1
        branches.append(
            Branch(
                id=branch,
                parent=None if is_root else parent,
                birth=float(tree.births[branch]) / top,
                death=0.0 if is_root else float(tree.deaths[branch]) / top,
                mass=1.0 if is_root else float(tree.masses[branch]),
                z=None if is_root else float(tree.z[branch]),
                kept=label >= 0,
                label=label if label >= 0 else None,
                profile=_profile(inside / top, len(rows)),
            )
        )
    return LevelTreePart(top=1.0, branches=branches, n_hidden=tree.n_branches - len(branches))


def _bottlenecks(tree: LevelTree, start: int) -> np.ndarray:
    """Return the minimum height (B,) of the edges on the path from `start` to each vertex."""
    n = len(tree.heights)
    beside: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for (a, b), height in zip(tree.edges.tolist(), tree.edge_heights.tolist(), strict=True):
        beside[a].append((b, height))
        beside[b].append((a, height))
    lowest = np.full(n, -np.inf)
    lowest[start] = np.inf
    waiting = [start]
    while waiting:
        here = waiting.pop()
        for there, height in beside[here]:
            if lowest[there] == -np.inf:
                lowest[there] = min(lowest[here], height)
                waiting.append(there)
    return lowest


def _profile(levels: np.ndarray, n_rows: int) -> list[list[float]]:
    """Return points [level, share of `n_rows` at or above the level], from the highest level."""
    if not levels.size:
        return []
    falling = np.sort(levels)[::-1]
    places = np.unique(np.linspace(0, falling.size - 1, PAGE_LIMITS.profile_points).astype(int))
    return [[float(f"{falling[i]:.6g}"), round((int(i) + 1) / n_rows, 6)] for i in places]


def _why(found: LevelSets) -> list[str]:
    answer, tree, members = found.answer, found.tree, found.ensemble.members
    n_models, n_agree = len(members), sum(answer.supporters)
    chosen = members[answer.member]
    spaces = sorted({member.n_components for member in members})
    low, high = min(m.gamma for m in members), max(m.gamma for m in members)
    differ = f"the width of the kernel (gamma {low:.3g} to {high:.3g})"
    if len(spaces) > 1:
        differ += f" and the number of leading components ({spaces[0]} to {spaces[-1]})"
    text = [f"{n_models} models were trained that differ in {differ}."] if n_models > 1 else []
    if answer.n_clusters == 1:
        none = "No model has a clear split: the answer is one cluster."
        return [*text, none]
    if n_models > 1:
        which = f"gamma {chosen.gamma:.3g}"
        which += f" on {chosen.n_components} components" if len(spaces) > 1 else ""
        text.append(
            f"{n_agree} of the models find these clusters (adjusted Rand index above 0.8). The "
            f"figure shows the model whose proposal agrees best with all others, {which}."
        )
    scale = np.sqrt(min(1.0, REFERENCE_ROWS[found.granularity] / found.n_rows))
    rest = tree.z[~answer.kept]
    weakest = f"The weakest split is {answer.z:.1f} standard errors deep"
    if scale < 1.0:
        weakest += f", judged on {REFERENCE_ROWS[found.granularity]:,} rows"
    weakest += "; below 2 it may be chance."
    if rest.size:
        weakest += (
            f" The clearest split that was not used is {scale * rest.max():.1f} standard errors "
            "deep."
        )
    return [*text, weakest]


def _chance(found: LevelSets) -> list[str]:
    answer, rival, text = found.answer, found.answer.rival, []
    if found.n_clusters is None:
        text.append(
            "A different sample would give the same clusters in about "
            f"{100 * answer.agreement:.0f} of 100 cases."
        )
    if rival is not None and rival.share >= NEARLY:
        words = f"{100 * rival.share:.0f} % as high as this answer."
        if rival.share > 1.0:
            words = f"{100 * (rival.share - 1.0):.0f} % higher; last night's clusters were kept."
        text.append(f"Another answer, of {things(rival.n_clusters, 'cluster')}, scored {words}")
    return text
