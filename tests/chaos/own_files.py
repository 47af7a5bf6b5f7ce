"""Small runs in this process whose own files are damaged between two starts, or can't be reached.

Either way a run ends with the bytes of an undisturbed one, or with an exit code that says what
happened and with its work kept, so that the same command ends well later.
"""

import itertools
import logging
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from chaos import oracle
from chaos.reads import Reads, in_children
from chaos.zygote import PAGE
from obstore.exceptions import GenericError
from sklearn.datasets import dump_svmlight_file

from distsvc.errors.faults import exit_code_and_message
from distsvc.job.config import Job
from distsvc.run.job import run_job
from distsvc.run.reporting import files
from distsvc.run.starting import interrupted_runs
from distsvc.run.work import phases
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import CHECKPOINTS
from distsvc.storage.places.bucket import Bucket
from distsvc.storage.publishing.publication import Output
from tests.small_runs import MODELS, forget, small_job, three_clusters, write_table

CHECKPOINT_SECONDS = 0.02
ROWS = 1500
ASKING = ("get", "head", "list", "list_with_delimiter")
"""What is asked of a store to read."""
STARTS = 4
"""Starts after damage, of which the last at least has to end well."""
WHATS = ("EIO", "EMFILE", "ENOMEM", "ESTALE")
ZARR = {"output": {"format": "zarr"}}
JOBS = {
    "sampled": ("t.parquet", MODELS["sampled"], {}),
    "boundary": ("t.parquet", MODELS["boundary"], {}),
    "linear": ("t.parquet", MODELS["linear"], {}),
    "hyperplanes": ("t.parquet", MODELS["hyperplanes"], ZARR),
    "csv": ("t.csv", MODELS["sampled"], {}),
    "svmlight": ("t.svm", MODELS["sampled"], {}),
    "elsewhere": ("t.parquet", MODELS["sampled"], {"cluster": {"workdir": "work"}}),
    "auto": ("t.parquet", MODELS["sampled"] | {"mode": "auto"}, {"continuity": {"previous": "p"}}),
    "level tree": ("t.parquet", MODELS["level tree"], {}),
}
"""The jobs: a table, a ``[model]`` and further sections, with paths below the folder of the lab."""


class StoreReads(Reads):
    """Counts the requests for a run's own objects, too; one that fails is answered 503."""

    def _wrapped(self):
        yield from super()._wrapped()
        look = self.look

        class Asked:
            def __init__(self, store):
                self._store = store

            def __getattr__(self, name):
                plain = getattr(self._store, name)
                return self._asking(plain) if name in ASKING else plain

            def _asking(self, plain):
                def asking(path, *args, **options):
                    try:
                        look(f"/{path}")
                    except OSError:
                        raise GenericError("status code: 503 Service Unavailable") from None
                    return plain(path, *args, **options)

                return asking

        store = property(lambda bucket: Asked(bucket._opened.store), lambda *_: None)
        yield Bucket, "_store", store


class KilledError(BaseException):
    """Stands for the end of the process."""


@dataclass
class Writes:
    """The results that a run has written and not removed; it is killed at a number of them."""

    most: int | None = None
    before: bool = False

    def __post_init__(self):
        self.names, self.n = set(), 0

    @contextmanager
    def watched(self):
        write, remove = RunDirectory.write, RunDirectory.remove

        def written(run, name, result):
            self.n += not run.has(name) and not name.startswith(CHECKPOINTS)
            over = self.most is not None and self.n > self.most
            if over and self.before:
                raise KilledError
            write(run, name, result)
            self.names.add(name)
            if over:
                raise KilledError

        def removed(run, name):
            self.names.discard(name)
            remove(run, name)

        with mock.patch.multiple(RunDirectory, write=written, remove=removed):
            yield self


class SmallLab:
    """Does small jobs in a folder, where `base` is the folder or the URL of outputs."""

    def __init__(self, folder: Path, base: str = ""):
        self.folder, self.base = folder, base or str(folder)
        self.reads = StoreReads if base else Reads
        self._whole: dict[str, tuple[oracle.Result, int]] = {}
        X = three_clusters(ROWS)
        folder.mkdir(parents=True, exist_ok=True)
        write_table(folder / "t.parquet", X)
        lines = [f"{a!r},{b!r}" for a, b in X.tolist()]
        (folder / "t.csv").write_text("\n".join(["x0,x1", *lines]) + "\n")
        dump_svmlight_file(X, [0] * ROWS, str(folder / "t.svm"), zero_based=False)

    def job(self, name: str, **cluster) -> Job:
        """Return a job by name; the run that it continues is there."""
        table, model, sections = JOBS[name]
        sections = {key: dict(value) for key, value in sections.items()}
        sections["output"] = sections.get("output", {}) | {"path": f"{self.base}/out"}
        sections["cluster"] = sections.get("cluster", {}) | cluster
        if "workdir" in sections["cluster"]:
            sections["cluster"]["workdir"] = f"{self.base}/work"
        if "continuity" in sections:
            sections["continuity"]["previous"] = f"{self.base}/p"
            if not Output(f"{self.base}/p").run_id:
                run_job(small_job(self.folder / table, MODELS["sampled"],
                                  output={"path": f"{self.base}/p"}))  # fmt: skip
        return small_job(self.folder / table, model, **sections)

    def start(self, job: Job, *watching) -> tuple[int, str]:
        """Do a job as a new process would; return its exit code and its words."""
        forget()
        with ExitStack() as stack:
            for one in watching:
                stack.enter_context(one.watched())
            try:
                run_job(job)
            except KilledError:
                return -9, "killed"
            except Exception as error:
                return exit_code_and_message(error)
        return 0, ""

    def whole(self, name: str) -> tuple[oracle.Result, int]:
        """Return what a job publishes undisturbed, and how many results it writes."""
        if name not in self._whole:
            self.clear()
            writes = Writes()
            code, words = self.start(self.job(name), writes)
            assert code == 0, words
            self._whole[name] = self.published(), writes.n
        return self._whole[name]

    def published(self) -> oracle.Result | None:
        """Return what is published, every listed file checked."""
        if "://" not in self.base:
            return oracle.published(self.folder / "out")
        store, copy = Output(f"{self.base}/out").store, self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        for name in store.sizes():
            path = copy / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((store.current(name) or (b"",))[0])
        return oracle.published(copy)

    def clear(self) -> None:
        """Remove the output, and work that lies elsewhere."""
        for name in ("out", "work"):
            Output(f"{self.base}/{name}").store.clear("")

    def kept(self) -> set[str]:
        """Return the names of the results that the next start finds."""
        return {
            name for run in interrupted_runs(Output(f"{self.base}/out")) for name in run.names()
        }

    def ends(self, name: str, code: int, words: str, starts: int) -> list[str]:
        """Start a job until it ends well; return what is wrong with what came of it."""
        said = [f"{code} {words}"]
        while code != 0 and len(said) <= starts:
            if code not in (65, 75):
                return [f"exit {code}: {words}"]
            code, words = self.start(self.job(name))
            said.append(f"{code} {words}")
        if code != 0:
            return [f"no way out: {'; '.join(said)}"]
        try:
            found = self.published()
        except oracle.TornError as error:
            return [f"torn: {'; '.join(error.args)}"]
        if found is None:
            return ["nothing is published"]
        return [f"another answer: {one}" for one in found.differences(self.whole(name)[0])]


@contextmanager
def quick():
    """Draw no page, write checkpoints often, and say nothing."""
    silent, log = logging.NullHandler(), logging.getLogger("distsvc")
    log.addHandler(silent)
    with (
        mock.patch.object(files, "page_of", return_value=PAGE),
        mock.patch.object(phases, "CHECKPOINT_SECONDS", CHECKPOINT_SECONDS),
    ):
        yield
    log.removeHandler(silent)


def damage(draw: random.Random, path: Path) -> str:
    """Cut a file, or zero or flip some of its bytes; return what was done."""
    content = bytearray(path.read_bytes())
    how = draw.choice(("cut", "zeroed", "flipped"))
    first = draw.choice((0, draw.randrange(len(content) + 1)))
    last = draw.choice((len(content), draw.randrange(first, len(content) + 1)))
    if how == "cut":
        del content[draw.choice((first, last)) :]
    elif how == "zeroed":
        content[first:last] = bytes(last - first)
    elif content:
        for _ in range(draw.choice((1, 1, 8))):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return f"{path.name} {how}"


def spoiled(lab: SmallLab, seed: int, only: str = "") -> dict:
    """Kill a run, damage some of its files, and start it again."""
    draw = random.Random(seed)
    name = draw.choice([one for one in JOBS if one.startswith(only)])
    _, n = lab.whole(name)
    lab.clear()
    job = lab.job(name)
    code, words = lab.start(job, Writes(draw.randrange(3, n), draw.random() < 0.5))
    runs = [path for path in lab.folder.glob("out/.runs/*-*") if path.is_dir()]
    runs += [path for path in lab.folder.glob("work/*-*") if path.is_dir()]
    found = sorted(path for run in runs for path in run.rglob("*") if path.is_file())
    what = [
        damage(draw, path) for path in draw.sample(found, min(len(found), draw.choice((1, 1, 3))))
    ]
    outcome = {"seed": seed, "kind": "spoiled", "job": name, "what": what, "codes": [code]}
    code, words = lab.start(lab.job(name))
    outcome["codes"].append(code)
    return outcome | {"problems": lab.ends(name, code, words, STARTS)}


def looks(lab: SmallLab, name: str, most: int | None) -> int:
    """Return how often a start looks at the run's own files; it goes on if `most` is given."""
    _begin(lab, name, most)
    reads = lab.reads()
    code, words = lab.start(lab.job(name), reads)
    assert code == 0, words
    return reads.n


def unreachable(
    lab: SmallLab, name: str, most: int | None, at: int, what: str, lasting: bool, workers: int = 0
) -> dict:
    """Have a look at the run's own files fail, of a first start or one that goes on.

    With workers it is theirs.
    """
    lab.whole(name)
    before, writes = _begin(lab, name, most), Writes()
    if workers:
        with in_children(at, what, lasting):
            code, words = lab.start(lab.job(name, workers=workers), writes)
    else:
        code, words = lab.start(lab.job(name), writes, lab.reads(at, what, lasting))
    outcome = {"seed": at, "kind": "unreachable", "job": name, "what": what, "codes": [code]}
    outcome |= {"goes_on": most is not None, "lasting": lasting, "workers": workers}
    outcome |= {"words": words, "problems": []}
    if code not in (0, 75):
        return outcome | {"problems": [f"exit {code}: {words}"]}
    if code != 0:
        lost = (before | writes.names) - lab.kept() - _passing(before | writes.names)
        if any("/" in one for one in lost):
            outcome["problems"].append(f"lost: {', '.join(sorted(lost)[:5])}")
    outcome["problems"] += lab.ends(name, code, words, 1)
    return outcome


def _begin(lab: SmallLab, name: str, most: int | None) -> set[str]:
    """Kill a first start after so many results, if any; return what is kept of it."""
    lab.clear()
    if most is None:
        return set()
    lab.start(lab.job(name), Writes(most))
    return lab.kept()


def _passing(names: set[str]) -> set[str]:
    """Return the names of results that a run removes once it has the next."""
    return {one for one in names if one.startswith(CHECKPOINTS)}


def every_look(lab: SmallLab, name: str, seed: int, step: int = 1) -> Iterator[dict]:
    """Have every look of a first start fail, and every look of one that goes on."""
    for most in (None, 2 * lab.whole(name)[1] // 3):
        for at in range(1 + seed % step, looks(lab, name, most) + 1, step):
            what = WHATS[(at // step) % len(WHATS)]
            yield unreachable(lab, name, most, at, what, at // step % 3 == 0)


def every_look_of_workers(lab: SmallLab, name: str, seed: int, step: int = 1) -> Iterator[dict]:
    """Have every look of two workers fail, until they look no more."""
    for at in itertools.count(1 + seed % step, step):
        what = WHATS[(at // step) % len(WHATS)]
        outcome = unreachable(lab, name, None, at, what, lasting=True, workers=2)
        yield outcome
        if outcome["codes"] == [0]:
            return
