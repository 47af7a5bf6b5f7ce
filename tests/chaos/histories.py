"""Random histories of a lineage: no id may be given twice, and no run lose what it goes on from.

Tables and learning are left out, so that thousands of histories take minutes. A night's clusters
are groups of a few atoms, each of which stands for a hundred rows. All else is the product's:
outputs, manifests, locks, candidates, rollback, ``gc``, the record of the lineage, and the matching
that gives ids to a night's clusters.
"""

import hashlib
import random
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import date, timedelta
from types import SimpleNamespace
from unittest import mock

import numpy as np

from distsvc.errors import DistsvcError, InputNotFoundError, JobFileError
from distsvc.job.config import ContinuityConfig
from distsvc.models.nights.continuity import LabelOverlap
from distsvc.published import republish
from distsvc.run.labelling.labeller import PREVIOUS, RULE
from distsvc.run.nights import continuity
from distsvc.run.work.directory import Result
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.lineages import Lineage, later_runs
from distsvc.storage.publishing.manifest import Continued, Manifest, read_manifest
from distsvc.storage.publishing.publication import Output
from distsvc.storage.publishing.retention import retain

ATOMS, ROWS = 9, 100
EVENTS = (8, 24)
"""How many things happen in a history."""
WHATS = {
    "next": 10, "late": 3, "again": 3, "reprocess": 3, "two at once": 3, "publish held": 3,
    "roll back": 2, "gc": 2, "retain": 1,
}  # fmt: skip
"""How often each is drawn."""
HELD, KILLED = 0.15, 0.08
"""The shares of runs that a check holds back, and that end before they publish anything."""
CHANGED = 0.5
"""The share of nights on which clusters come, go, split or merge."""
BEFORE = date(2026, 1, 1)
SILENT = SimpleNamespace(phase=lambda name: nullcontext())

Clusters = tuple[frozenset[int], ...]


@dataclass(frozen=True)
class Model:
    """A run's clusters by label, their ids, and a number above all ids that it knows of."""

    run_id: str
    clusters: Clusters
    ids: tuple[int, ...]
    next_id: int


@dataclass
class Run:
    """What a run's directory is to the code under test: results by their names, and models."""

    results: dict[str, Result] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.results or name.removesuffix(RULE) in self.models

    def read(self, name: str) -> Result:
        return self.results[name]

    def write(self, name: str, result: Result) -> None:
        self.results[name] = result


def _overlap(run: Run, rule, survey, of: str):
    """Count the atoms that clusters of an earlier model and of a new one share, as rows."""
    before, after = run.models[of].clusters, rule.clusters
    shared = [[ROWS * len(one & other) for other in after] for one in before]
    overlap = np.array(shared, np.int64).reshape(len(before), len(after))
    counts = np.outer([ROWS * len(one) for one in before], [1, 0])
    return LabelOverlap(overlap, overlap, counts), np.zeros(1, np.int64)


def _labeller(run: Run, of: str):
    model = run.models[of]
    return SimpleNamespace(ids=np.array(model.ids, np.int32), next_id=model.next_id)


@dataclass
class Begun:
    """A run that has its ids and is not published yet."""

    output: Output
    manifest: Manifest
    is_held: bool


class History:
    """A lineage in a folder; `problems` are what was wrong so far."""

    def __init__(self, root: str, seed: int):
        self.root, self.draw = root, random.Random(seed)
        self.in_place = self.draw.random() < 0.15
        self.memory = self.draw.choice([0, 1, 3, 7])
        self.models: dict[str, Model] = {}
        self.made: dict[str, Manifest] = {}
        self.given: dict[tuple[str, int], str] = {}
        """By lineage and id, the answer that was given it."""
        self.contents: dict[tuple[int, int], Clusters] = {}
        self.days: list[int] = []
        self.skipped: list[int] = []
        self.variants: dict[int, int] = {}
        self.today = 0
        self.events: list[str] = []
        self.problems: list[str] = []

    # What there is

    def address(self, day: int) -> str:
        """Return the output of a day."""
        return f"{self.root}/out" if self.in_place else f"{self.root}/{day_of(day)}"

    def content(self, day: int, variant: int) -> Clusters:
        """Return the clusters of a day; another variant is the answer of another seed."""
        key = day, variant
        if key not in self.contents:
            near = self.contents.get((max((d for d in self.days if d < day), default=-1), 0))
            self.contents[key] = self.changed(near) if near else self.fresh()
        return self.contents[key]

    def fresh(self) -> Clusters:
        atoms = self.draw.sample(range(ATOMS), self.draw.randint(3, ATOMS))
        return self.grouped(atoms, [self.draw.randrange(4) for _ in atoms])

    def grouped(self, atoms: list[int], groups: list[int]) -> Clusters:
        found = [frozenset(a for a, g in zip(atoms, groups, strict=True) if g == one)
                 for one in sorted(set(groups))]  # fmt: skip
        self.draw.shuffle(found)
        return tuple(found)

    def changed(self, before: Clusters) -> Clusters:
        if self.draw.random() > CHANGED:
            return before
        groups = {atom: g for g, cluster in enumerate(before) for atom in cluster}
        for _ in range(self.draw.randint(1, 2)):
            atom, kind = self.draw.randrange(ATOMS), self.draw.random()
            if atom in groups and kind < 0.4 and len(groups) > 1:
                mates = [one for one in groups if groups[one] == groups[atom]]
                for one in mates if kind < 0.2 and len(mates) < len(groups) else [atom]:
                    del groups[one]
            elif kind < 0.7:
                groups[atom] = max(groups.values()) + 1
            else:
                groups[atom] = self.draw.choice(list(groups.values()))
        return self.grouped(list(groups), list(groups.values()))

    def before(self, day: int) -> tuple[str, Manifest] | None:
        """Return the run that one of a day goes on from, as a job's list of paths finds it."""
        earlier = [self.address(day)] if self.in_place else [
            self.address(one) for one in range(day - 1, max(day - 9, -1), -1)
        ]  # fmt: skip
        for address in earlier:
            try:
                return store_of(address).address, read_manifest(store_of(address))
            except InputNotFoundError:
                continue
        return None

    # What happens

    def begin(self, day: int, variant: int) -> Begun:
        """Learn the clusters of a day, and give them ids."""
        output = Output(self.address(day))
        before = self.before(day)
        clusters = self.content(day, variant)
        model = self.models[before[1].run_id].run_id if before else ""
        job, table = (hashlib.sha256(repr(one).encode()).hexdigest()
                      for one in ((variant, model), (day, clusters)))  # fmt: skip
        run_id = f"{job[:12]}-{len(self.made) + 100 * self.today:08x}"
        answer = hashlib.sha256(f"{job} {table}".encode()).hexdigest()
        known = run_id, answer, output.store.address, day_of(day)
        lineage = Lineage.of(known, before, self.in_place)
        run = Run()
        if before is not None:
            run.models[PREVIOUS] = self.models[before[1].run_id]
        rule = SimpleNamespace(n_clusters=len(clusters), clusters=clusters)
        config = ContinuityConfig(previous=[self.address(day)], memory=self.memory)
        steps = SimpleNamespace(run=run, progress=SILENT)
        ids = continuity.ids_of(steps, rule, None, config, lineage)
        made = Model(run_id, clusters, tuple(ids.of_labels.tolist()), ids.next)
        lineage.enter()
        named = {"previous": None if before is None else Continued(path=before[0], run_id=model)}
        manifest = Manifest.model_validate({
            "format": 2, "run_id": run_id, "created": f"2026-06-01T00:00:{len(self.made):06d}",
            "job_sha256": job, "input_sha256": table, "rows": 0, "clusters": len(clusters),
            "files": [], "job": {"job": {"run_date": day_of(day), "name": "shop"}},
            "lineage": lineage.named(), **named,
        })  # fmt: skip
        self.check_ids(made, manifest, answer, run)
        self.models[run_id], self.made[run_id] = made, manifest
        return Begun(output, manifest, self.draw.random() < HELD)

    def end(self, begun: Begun) -> None:
        """Publish a run, or hold it back, or neither: it was killed."""
        if self.draw.random() < KILLED:
            self.events[-1] += ", killed"
            return
        output, manifest = Output(begun.output.shown), begun.manifest
        self.check_stale(output)
        with output.locked():
            output.check_free(manifest.job_sha256, overwrite=True)
            if begun.is_held:
                output.hold(manifest)
                self.events[-1] += ", held"
            else:
                output.publish(manifest)

    def run(self, day: int, variant: int = 0) -> None:
        self.end(self.begin(day, variant))

    def step(self) -> None:
        """Do one thing that is drawn."""
        what = self.draw.choices(list(WHATS), list(WHATS.values()))[0]
        self.today += 1
        self.events.append(what)
        try:
            self.do(what)
        except (InputNotFoundError, JobFileError) as error:
            self.events[-1] += f": {error}"
        except DistsvcError as error:
            self.problems.append(f"{what}: {type(error).__name__}: {error}")
        self.check_whole()

    def do(self, what: str) -> None:
        if what == "next" or not self.days:
            gap = self.draw.choice([0, 0, 0, 1, 2])
            day = max(self.days, default=-1) + 1
            self.skipped += range(day, day + gap)
            self.days.append(day + gap)
            self.run(day + gap)
        elif what == "late" and self.skipped and not self.in_place:
            day = self.skipped.pop(self.draw.randrange(len(self.skipped)))
            self.days.append(day)
            self.run(day)
        elif what in ("again", "late"):
            day = self.draw.choice(self.days)
            self.run(day, self.variants.get(day, 0))
        elif what == "reprocess":
            day = self.draw.choice(self.days)
            self.variants[day] = self.variants.get(day, 0) + 1
            self.run(day, self.variants[day])
        elif what == "two at once":
            self.two_at_once()
        elif what == "publish held":
            output = Output(self.address(self.draw.choice(self.days)))
            waiting = sorted(output.candidates())
            if waiting:
                self.check_stale(output)
                republish.publish_held(output.shown, self.draw.choice(waiting))
        elif what == "roll back":
            republish.roll_back(self.address(self.draw.choice(self.days)))
        elif what == "gc":
            output = Output(self.address(self.draw.choice(self.days)))
            with output.locked():
                output.collect()
        else:
            retain(self.root, self.draw.randint(2, 5))

    def two_at_once(self) -> None:
        """Let two writers begin before either publishes, one after the other or in two threads."""
        first = max(self.days) + 1
        days = (
            [first, first + 1] if self.draw.random() < 0.5 else [first, self.draw.choice(self.days)]
        )
        self.days.append(days[0])
        if days[1] not in self.days:
            self.days.append(days[1])
        asked = [(day, self.variants.get(day, 0)) for day in days]
        for one in asked:
            self.content(*one)
        begun = [self.begin(*one) for one in asked]
        self.draw.shuffle(begun)
        for one in begun:
            self.end(one)

    # What has to be so

    def check_ids(self, made: Model, manifest: Manifest, answer: str, run: Run) -> None:
        """See that each id is known from an earlier run, or was never given to another answer."""
        if len(set(made.ids)) < len(made.ids) or max(made.ids) >= made.next_id:
            self.problems.append(f"{made.run_id}: ids {made.ids}, next {made.next_id}")
        before = run.models.get(PREVIOUS)
        known = dict(zip(before.clusters, before.ids, strict=True)) if before else {}
        earlier = self.earlier_ids(manifest)
        for cluster, one in zip(made.clusters, made.ids, strict=True):
            if cluster in known:
                if one != known[cluster]:
                    self.problems.append(f"{made.run_id}: {known[cluster]} survives as {one}")
            elif one in earlier.keys() - set(known.values()):
                if (
                    max(likeness(cluster, made.clusters, *then) for then in earlier[one])
                    < ContinuityConfig().min_overlap
                ):
                    self.problems.append(f"{made.run_id}: {one} is back, and another cluster")
            elif one not in known.values():
                other = self.given.setdefault((manifest.lineage.id, one), answer)
                if other != answer:
                    self.problems.append(f"{made.run_id}: id {one} was given to another cluster")
        if before and before.next_id > made.next_id:
            self.problems.append(f"{made.run_id}: next id {made.next_id}, was {before.next_id}")

    def earlier_ids(self, manifest: Manifest) -> dict[int, list[tuple[frozenset[int], Clusters]]]:
        """Return the clusters by their ids of the runs before, each with those beside it."""
        found, before = {}, manifest.previous
        for _ in range(self.memory + 1):
            if before is None:
                break
            then = self.models[before.run_id]
            for cluster, one in zip(then.clusters, then.ids, strict=True):
                found.setdefault(one, []).append((cluster, then.clusters))
            before = self.made[before.run_id].previous
        return found

    def check_stale(self, output: Output) -> None:
        """See that what went on from the run that is to be replaced is known."""
        there = output.manifest()
        if there is None:
            return
        reached, now = {there.run_id}, self.published()
        for run_id, manifest in self.made.items():  # a run is made after the one before it
            if manifest.previous is not None and manifest.previous.run_id in reached:
                reached.add(run_id)
        wanted = {address for address, run_id in now.items() if run_id in reached - {there.run_id}}
        found = {address for address, _ in later_runs(output.store.address, there)}
        if found != wanted:
            self.problems.append(f"after {there.run_id} came {sorted(wanted)}, found {found}")

    def published(self) -> dict[str, str]:
        """Return the addresses where a run is published, and which."""
        found = {}
        for address in {store_of(self.address(day)).address for day in self.days}:
            manifest = Output(address).manifest()
            if manifest is not None:
                found[address] = manifest.run_id
        return found

    def check_whole(self) -> None:
        """See that what is published was made, and is what its lineage says."""
        for address, run_id in self.published().items():
            if run_id not in self.made:
                self.problems.append(f"{address}: run {run_id} was never made")
                continue
            manifest = read_manifest(store_of(address))
            was = self.made[run_id]
            if (manifest.previous, manifest.lineage) != (was.previous, was.lineage):
                self.problems.append(f"{address}: the lineage of {run_id} is another now")


def likeness(one: frozenset, beside: Clusters, other: frozenset, beside_other: Clusters) -> float:
    """Return the Jaccard index of clusters of two models, by the atoms that both models know."""
    both = frozenset().union(*beside) & frozenset().union(*beside_other)
    return len(one & other) / max(len((one | other) & both), 1)


def day_of(number: int) -> str:
    return (BEFORE + timedelta(number)).isoformat()


@contextmanager
def without_tables(models: dict[str, Model]) -> Iterator[None]:
    """Let models be those of a history, and pages be left out."""

    def restored(manifest: Manifest, folder, run: Run, of: str) -> None:
        run.models[of] = models[manifest.run_id]

    with ExitStack() as stack:
        for name, stands_in in {
            "checked_model": lambda store: store,
            "read_model": read_manifest,
            "restore_model": restored,
            "_in_common": _overlap,
            "_within": lambda *_: np.array(True),
            "Labeller": SimpleNamespace(read=_labeller),
        }.items():
            stack.enter_context(mock.patch.object(continuity, name, stands_in))
        stack.enter_context(mock.patch.object(republish, "_overridden", return_value={}))
        stack.enter_context(mock.patch("os.fsync", return_value=None))
        yield


def history(seed: int, root: str = "") -> dict:
    """Return the outcome of a random history, in a folder of its own or below a URL."""
    folder = "" if root else tempfile.mkdtemp(prefix="distsvc-history-")
    one = History(f"{root}/{seed}" if root else folder, seed)
    try:
        with without_tables(one.models):
            for _ in range(one.draw.randint(*EVENTS)):
                one.step()
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    problems = [f"{problem} ({'; '.join(one.events)})" for problem in one.problems[:3]]
    runs, ids = len(one.made), len(one.given)
    return {"seed": seed, "kind": "history", "job": "", "what": f"{runs} runs, {ids} ids",
            "problems": problems}  # fmt: skip


def histories(seeds: range, jobs: int) -> Iterator[dict]:
    """Yield the outcomes of many histories, in folders, by so many processes."""
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(history, seeds, chunksize=8)
