"""One lineage that is run, backfilled, published, tidied and looked at at once, while kills fall.

After every round of commands the lineage has to be whole: each published night continues another
one, with the ids of the first, and what an unfinished night continues is published still.
"""

import json
import random
import shutil
import time
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from chaos import oracle
from chaos.lab import LIMIT, Lab

CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 9.0]])
BEFORE = date(2026, 1, 1)
FIRST = 3
"""Nights that are published before anything is killed."""
KEEP = 4
"""Runs that ``gc`` keeps; nights from the last but one on always have one of them before them."""
HELD_EACH, LEAST = 5, 200
"""Every fifth night has too few rows, fewer than so many, and is held back."""
SHARE_KILLED, UNFINISHED = 0.85, 0.5
"""How many of the commands are killed, and how many runs are of a night that is unfinished."""
COMMANDS = {"run": 12, "gc": 5, "backfill": 4, "publish": 2, "status": 1, "look": 1, "tidy": 1}
"""How often each is drawn; ``look`` is a dry run of ``gc``, and ``tidy`` one without ``--keep``."""
REFUSED = (
    "previous run: ",  # a nearer night was published since
    "was already published",  # by another command of this round
    "it has another job",  # of the same round, too: it continues another night
)
"""Why a run may be refused; that what it continues has gone is no such reason."""
ENDS = {
    "run": {0, 75, 76, 78},
    "backfill": {0, 75, 76, 78},
    "gc": {0, 75},
    "look": {0},
    "tidy": {0, 66, 75},
    "publish": {0, 66, 75},
    "status": {0, 66},
}


def day_of(number: int) -> str:
    return (BEFORE + timedelta(number)).isoformat()


@cache
def rows_of(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a night and the centres that they are around."""
    random_rows = np.random.default_rng(number)
    sizes = np.array([120, 80, 40]) // (2 if number % HELD_EACH == 0 else 1)
    y = random_rows.permutation(np.repeat(np.arange(3), sizes))
    return CENTRES[y] + random_rows.normal(0.0, 0.4, (len(y), 2)), y


class Lineage:
    """A folder of tables and outputs by date; `problems` are what was wrong so far."""

    def __init__(self, lab: Lab, seed: int):
        self.lab, self.seed, self.draw = lab, seed, random.Random(seed)
        self.folder = lab.work / "lineages" / str(seed)
        self.out = self.folder / "out"
        self.problems: list[str] = []
        self.kills, self.codes, self.fresh = 0, {}, set()
        self.known: set[str] = set()
        self.seconds = 1.0

    def prepare(self) -> None:
        """Write the job file, and publish the first nights undisturbed."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "in").mkdir(parents=True)
        content = {
            "job": {"name": "shop"},
            "input": {"path": "in/{run_date}.parquet", "label": "kind"},
            "model": {"algorithm": "bico", "n_clusters": 3},
            "continuity": {"previous": "out/{run_date-1d}"},
            "checks": {"min_rows": LEAST},
            "cluster": {"workers": 0, "partition_rows": 60, "block_rows": 50},
            "output": {"path": "out/{run_date}"},
        }
        (self.folder / "job.toml").write_text(tomli_w.dumps(content))
        for number in range(1, FIRST + 1):
            begun = time.monotonic()
            code = self.start(self.run(number)).wait(LIMIT)
            if code:
                raise RuntimeError(f"night {number}, undisturbed: exit {code}")
            self.seconds = time.monotonic() - begun

    def run(self, number: int, *options: str) -> list[str]:
        """Return the command of a night, whose table is there then."""
        self.table(number)
        return ["run", "job.toml", "--run-date", day_of(number), *options]

    def table(self, number: int) -> None:
        path = self.folder / "in" / f"{day_of(number)}.parquet"
        if not path.exists():
            X, y = rows_of(number)
            named = {"kind": y, "x": X[:, 0], "y": X[:, 1]}
            pq.write_table(pa.table(named), path, row_group_size=50)

    def start(self, args: list[str]):
        return self.lab.launcher.start(self.folder, args)

    def command(self) -> tuple[str, list[str]]:
        """Draw a command of those that someone may give now."""
        name = self.draw.choices(list(COMMANDS), list(COMMANDS.values()))[0]
        nights = self.nights()
        front = max(nights)
        number = max(FIRST, front + self.draw.randint(-1, 2))
        if name == "run":
            begun = sorted({one for one, _, _ in self.begun() if one not in nights})
            if begun and self.draw.random() < UNFINISHED:
                number = self.draw.choice(begun)
            options = ["--fresh"] if number in self.fresh else []
            self.fresh.discard(number)
            return name, self.run(number, *options)
        if name == "backfill":
            self.table(number + 1)
            self.table(number)
            days = ["--from", day_of(number), "--to", day_of(number + 1)]
            return name, ["backfill", "job.toml", *days]
        if name == "publish":
            held = sorted(self.out.glob("*/.runs/held/*.json"))
            if held:
                one = self.draw.choice(held)
                return name, ["publish", f"out/{one.parts[-4]}", "--held", one.stem]
        any_night = f"out/{day_of(self.draw.choice(sorted(nights)))}"
        keep = ["gc", "out", "--keep", str(KEEP)]
        others = {"look": [*keep, "--dry-run"], "tidy": ["gc", any_night], "gc": keep}
        return (name, others[name]) if name in others else ("status", ["status", any_night])

    def round(self) -> None:
        """Start some commands at once, kill some of them, and look at what is left."""
        named = [self.command() for _ in range(self.draw.randint(3, 5))]
        started = [self.start(args) for _, args in named]
        begun = time.monotonic()
        moments = [
            self.seconds * self.draw.random() ** 1.5 if self.draw.random() < SHARE_KILLED else None
            for _ in named
        ]
        for moment, process in sorted(
            (pair for pair in zip(moments, started, strict=True) if pair[0] is not None),
            key=lambda pair: pair[0],
        ):
            time.sleep(max(0.0, begun + moment - time.monotonic()))
            process.send(9)
        for (name, args), process in zip(named, started, strict=True):
            self.judge(name, args, process.wait(LIMIT), process.said())
        self.problems += self.wrong()

    def judge(self, name: str, args: list[str], code: int | None, said: str) -> None:
        """Count how a command ended, and note what is wrong about it."""
        self.codes[f"{name} {code}"] = self.codes.get(f"{name} {code}", 0) + 1
        self.kills += code == -9
        if code == -9:
            return
        last = said.strip().splitlines()[-1:] if code else []
        if code not in ENDS[name] or (code == 78 and not any(word in said for word in REFUSED)):
            self.problems.append(f"{' '.join(args)}: exit {code}: {' '.join(last)[:300]}")
        elif code not in (76, None):
            self.problems += oracle.misspoken(code, said)
        if code == 78 and REFUSED[0] in said and name == "run":
            self.fresh.add((date.fromisoformat(args[3]) - BEFORE).days)

    def nights(self) -> dict[int, Path]:
        """Return the published nights, by number."""
        found = self.out.glob("*/manifest.json")
        return {(date.fromisoformat(p.parent.name) - BEFORE).days: p.parent for p in found}

    def begun(self) -> list[tuple[int, Path, str]]:
        """Return the unfinished runs: their nights, folders and names."""
        nights, found = self.nights(), []
        for path in sorted(self.out.glob("*/.runs/*/begun.json")):
            out, name = path.parents[2], path.parent.name
            number = (date.fromisoformat(out.name) - BEFORE).days
            over = number in nights and read(out / "manifest.json")["run_id"] == name
            if not over:  # else it was killed once it was published
                found.append((number, path.parent, name))
        return found

    def wrong(self) -> list[str]:
        """Name what is wrong about the lineage while no command runs."""
        problems = []
        for number, out in self.nights().items():
            manifest = read(out / "manifest.json")
            for file in manifest["files"]:
                path = out / file["file"]
                if not path.exists() or path.stat().st_size != file["bytes"]:
                    problems.append(f"{out.name}: {file['file']} is not whole")
            if "previous" not in manifest and number > 1:
                problems.append(f"{out.name}: begins a lineage")
            if not problems and manifest["run_id"] not in self.known:
                self.known.add(manifest["run_id"])
                problems += self.wrong_ids(number, out, manifest)
        for number, folder, name in self.begun():
            path = folder / "previous.json"
            previous = read(path) if path.exists() else None
            if previous is None:
                problems.append(f"night {number}: run {name} does not say what it continues")
                continue
            there = Path(previous["address"], "manifest.json")
            if not there.exists() or read(there)["run_id"] != previous["run_id"]:
                problems.append(f"night {number}: run {name} continues {there.parent}: gone")
        return problems

    def wrong_ids(self, number: int, out: Path, manifest: dict) -> list[str]:
        """Name it if the rows of a centre have another id than those of the first night."""
        parts = [out / file["file"] for file in manifest["files"] if "/part-" in file["file"]]
        label = pa.concat_tables(map(pq.read_table, sorted(parts)))["label"].to_numpy()
        first = self.folder / "ids.json"
        ids = {str(k): np.unique(label[rows_of(number)[1] == k]).tolist() for k in range(3)}
        if not first.exists():
            first.write_text(json.dumps(ids))
        expected = read(first)
        return [] if ids == expected else [f"{out.name}: ids {ids}, expected {expected}"]


def read(path: Path):
    return json.loads(path.read_text())


def killed_lineage(lab: Lab, seed: int, kills: int) -> dict:
    """Disturb a lineage until so many commands were killed; return what the log says of it."""
    begun, lineage, rounds = time.monotonic(), Lineage(lab, seed), 0
    lineage.prepare()
    lineage.problems += lineage.wrong()
    while lineage.kills < kills and not lineage.problems:
        lineage.round()
        rounds += 1
    left = len(lineage.begun())
    nights = sorted(lineage.nights())
    if not lineage.problems:
        shutil.rmtree(lineage.folder, ignore_errors=True)
    return {
        "seed": seed, "kind": "lineage", "job": "bico", "what": f"{lineage.kills} kills",
        "rounds": rounds, "codes": dict(sorted(lineage.codes.items())), "nights": nights,
        "unfinished": left, "problems": lineage.problems,
        "seconds": round(time.monotonic() - begun, 2),
    }  # fmt: skip
