"""Forty nights of a shop, from the shell: whatever may befall a table, a scheduler and people.

    python -m tests.jobs.shop_nights [FOLDER]

Each night is a command of its own. Its exit code, what it says and the ids of the clusters have to
be as documented. The suite runs the same nights in one process, without the calm ones in between.
"""

import datetime
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.published_files import read_labels

FIRST = datetime.date(2026, 1, 1)
KINDS = {  # customers, and their visits a month, basket, discount in percent, returns
    "regulars": (500, (9.0, 40.0, 5.0, 2.0)),
    "hunters": (400, (3.0, 12.0, 30.0, 1.0)),
    "givers": (300, (1.0, 95.0, 8.0, 3.0)),
    "firms": (250, (6.0, 160.0, 15.0, 9.0)),
    "guests": (200, (2.0, 60.0, 20.0, 14.0)),
}
LATER = {"students": (250, (12.0, 8.0, 12.0, 6.0)), "clubs": (250, (14.0, 130.0, 2.0, 0.5))}
SPREAD = (0.5, 4.0, 2.0, 0.7)
COLUMNS = ("visits", "basket", "discount", "returns")
JOB = """
[job]
name = "shop"

[input]
path = "shop/{run_date}"
ready = "_SUCCESS"

[model]
effort = "EFFORT"

[continuity]
previous = "out/{run_date-1d}"

[output]
path = "out/{run_date}"
"""
HERE = '[continuity]\nprevious = "now"\n[output]\npath = "now"\n'

Call = Callable[[Sequence[str]], tuple[int, str]]


def in_a_shell(folder: Path) -> Call:
    """Return what runs a command as a process of its own, and returns exit code and output."""

    def call(arguments: Sequence[str]) -> tuple[int, str]:
        command = [sys.executable, "-m", "distsvc", *arguments]
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.returncode, done.stdout

    return call


@dataclass
class Nights:
    """The shop in a folder: its days, and what is known of its clusters."""

    folder: Path
    call: Call
    short: bool
    day: int = 0
    commands: int = 0
    kinds: dict[str, tuple[int, tuple[float, ...]]] = field(default_factory=lambda: dict(KINDS))
    ids: dict[str, int] = field(default_factory=dict)
    truth: dict[str, np.ndarray] = field(default_factory=dict)

    # Tables and commands

    def date(self, day: int | None = None) -> str:
        return (FIRST + datetime.timedelta(self.day if day is None else day)).isoformat()

    def table(
        self,
        ready: bool = True,
        rows: float = 1.0,
        seed: int = 0,
        out: Sequence[str] = (),
        unit: float = 1.0,
        **more: str,
    ) -> None:
        """Write the table of a day: so many times the rows, without and with more columns."""
        random = np.random.default_rng([self.day, seed])
        parts, names = [], []
        for kind, (n, centre) in self.kinds.items():
            n = round(n * rows * (0.5 if self.short else 1.0))
            parts.append(random.normal(centre, SPREAD, (n, len(COLUMNS))))
            names += [kind] * n
        X = np.concatenate(parts) if parts else np.empty((0, len(COLUMNS)))
        order = random.permutation(len(X))
        X, names = X[order], np.array(names, object)[order]
        X[:, COLUMNS.index("basket")] *= unit
        columns = {name: X[:, k] for k, name in enumerate(COLUMNS) if name not in out}
        customer = np.arange(len(X))
        if more.pop("customers", "") == "twice":  # a number that is no longer one of each row
            customer //= 2
        columns |= {"customer": customer}
        columns |= {name: random.normal(size=len(X)) for name in more}
        folder = self.folder / "shop" / self.date()
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / "customers.parquet")
        self.truth[self.date()] = names
        if ready:
            (folder / "_SUCCESS").touch()

    def told(self, code: int, *patterns: str, command: Sequence[str]) -> str:
        """Run a command; see that it ends with a code, and says what it should."""
        self.commands += 1
        found, said = self.call(command)
        assert "Traceback" not in said, said
        said = "".join(line for line in said.splitlines(True) if not line.startswith('{"time"'))
        shown = f"{self.date()}: distsvc {' '.join(command)}"
        assert found == code, f"{shown}: exit code {found}, expected {code}\n{said}"
        for pattern in patterns:
            assert re.search(pattern, said, re.MULTILINE), (
                f"{shown}: nothing like {pattern!r} in\n{said}"
            )
        return said

    def run(self, code: int, *patterns: str, more: Sequence[str] = (), job: str = "shop") -> str:
        command = ["run", f"{job}.toml", "--run-date", self.date(), *more]
        return self.told(code, *patterns, command=command)

    def out(self, day: int | None = None) -> Path:
        return self.folder / "out" / self.date(day)

    def ids_of(self, out: Path, date: str) -> dict[str, int]:
        """Return the id that most rows of each kind have; it is that of nine in ten."""
        labels, names, found = read_labels(out)["label"].to_numpy(), self.truth[date], {}
        for kind in sorted(set(names)):
            values, counts = np.unique(labels[names == kind], return_counts=True)
            assert counts.max() > 0.9 * counts.sum(), (
                f"{date}: {kind} is in {dict(zip(values, counts, strict=True))}"
            )
            found[kind] = int(values[counts.argmax()])
        return found

    def same(self, *kinds: str) -> None:
        """See that every kind has the id that it always had; remember those of new ones."""
        found = self.ids_of(self.out(), self.date())
        assert set(found) == set(self.kinds), found
        for kind, one in found.items():
            taken = {other for name, other in self.ids.items() if name != kind}
            assert one not in taken, f"{self.date()}: {kind} has {one}, which is another's"
            assert self.ids.setdefault(kind, one) == one, f"{self.date()}: {kind} is {one} now"
        assert set(kinds) <= set(found)

    def calm(self, n: int) -> None:
        """Let nights pass on which nothing happens; the short form leaves them out."""
        for _ in range(0 if self.short else n):
            self.next()

    def next(self, *patterns: str) -> None:
        """Do a night as any other."""
        self.table()
        k = len(self.kinds)
        self.run(0, rf"^{k} clusters in [\d,]+ rows", "% moved", *patterns)
        self.same()
        self.day += 1

    # What happens

    def all(self) -> None:
        effort = "fast" if self.short else "default"
        (self.folder / "shop.toml").write_text(JOB.replace("EFFORT", effort))
        head, _, _ = JOB.partition("[continuity]")
        (self.folder / "here.toml").write_text(head.replace("EFFORT", effort) + HERE)
        for twist in (
            self.begins, self.columns_of_a_night, self.late, self.empty_and_doubled,
            self.another_unit, self.gone_and_back, self.split, self.again, self.replaced_in_place,
            self.one_model, self.looked_at,
        ):  # fmt: skip
            twist()
            self.calm(2)

    def begins(self) -> None:
        self.table()
        self.run(0, "ids from 0", "ids start at 0")
        self.same()
        self.run(0, "already published: 5 clusters in")
        self.day += 1
        self.next("5 checks passed")

    def columns_of_a_night(self) -> None:
        self.table(customers="twice")
        self.run(0, r"ignored, since the model of the run before does not know them: .*customer")
        self.same()
        self.day += 1
        self.table(rating="a")
        self.run(0, r"does not know them: .*rating")
        self.same()
        self.day += 1
        self.next()
        self.table(out=["discount"])
        self.run(65, "discount", "continuity.previous", "renamed")
        self.table()
        self.run(0, more=["--fresh"])
        self.same()
        self.day += 1

    def late(self) -> None:
        """A night is late, others follow, each with a new kind: three ids, none of them twice."""
        late = self.day
        self.run(75, "not there yet")
        self.run(99, "skipped", more=["--skip-missing"])
        self.day += 1
        self.kinds["students"] = LATER["students"]
        self.table()
        self.run(0, "new 5", f"nothing is published at out/{self.date(late)}")
        self.same("students")
        self.day, after = late, self.day
        del self.kinds["students"]
        self.kinds["clubs"] = LATER["clubs"]
        self.table()
        dates = "--from", self.date(), "--to", self.date()
        command = ["backfill", "shop.toml", *dates]
        self.told(0, rf"{self.date()}  published  .*new 6", command=command)
        self.same("clubs")
        del self.kinds["clubs"]
        self.kinds["students"] = LATER["students"]
        self.day = after + 1
        self.next()
        dates = "--from", self.date(late), "--to", self.date(after)
        self.told(0, "kept", command=["backfill", "shop.toml", *dates])

    def empty_and_doubled(self) -> None:
        kinds, self.kinds = self.kinds, {}
        self.table()
        self.run(65, "no rows|0 rows|has no row")
        self.run(99, "skipped", more=["--skip-empty"])
        self.day += 1
        self.kinds = kinds
        self.table(rows=2.3)
        self.run(0, "rows_against_last warned", r"rows_against_last: rows are 2\.30 times")
        self.same()
        self.day += 1
        self.next("rows_against_last warned")

    def another_unit(self) -> None:
        """A night in another unit is held back; people publish it, regret that, and go on."""
        self.table(unit=1000.0)
        about = "'basket' is about 1,000 times the previous run's"
        said = self.run(76, about, "mend it and run the night again; .*publish out/.* --held")
        assert not (self.out() / "manifest.json").exists()
        held = re.search(r"--held (\S+)", said)[1]
        found = held, about, rf" {len(self.kinds)} clusters;"
        self.told(0, *found, command=["status", f"out/{self.date()}"])
        self.told(0, "published", command=["publish", f"out/{self.date()}", "--held", held])
        bad = self.date()
        self.day += 1
        self.table()
        self.run(76, "about 1/1,000 of", f"distsvc rollback out/{bad} --withdraw, then run")
        self.told(66, "--withdraw$", command=["rollback", f"out/{bad}"])
        withdrawn = ["rollback", f"out/{bad}", "--withdraw"]
        self.told(0, "nothing is published", f"--held {held}$", command=withdrawn)
        assert not list((self.folder / f"out/{bad}").glob("labels/**/*.parquet"))
        self.told(0, "published: nothing", held, command=["status", f"out/{bad}"])
        self.run(0, f"nothing is published at out/{bad}: cluster ids continue from")
        self.same()
        self.day += 1
        self.next()

    def gone_and_back(self) -> None:
        """A kind leaves, but for two strays, and is back after some nights."""
        givers = self.kinds["givers"]
        for number in range(1 if self.short else 3):
            self.kinds["givers"] = (4 if self.short else 2, givers[1])
            self.table()
            patterns = [f"gone {self.ids['givers']}"] if number == 0 else []
            self.run(0, *patterns)
            found = self.kinds.pop("givers")
            self.truth[self.date()] = np.where(
                self.truth[self.date()] == "givers", "strays", self.truth[self.date()]
            )
            labels = self.ids_of_others()
            assert labels == {kind: self.ids[kind] for kind in labels}
            self.kinds["givers"] = found
            self.day += 1
        self.kinds["givers"] = givers
        self.table()
        self.run(0, f"back {self.ids['givers']}")
        self.same()
        self.day += 1

    def ids_of_others(self) -> dict[str, int]:
        date = self.date()
        names = self.truth[date]
        labels = read_labels(self.out())["label"].to_numpy()
        found = {}
        for kind in self.kinds:
            values, counts = np.unique(labels[names == kind], return_counts=True)
            found[kind] = int(values[counts.argmax()])
        return found

    def split(self) -> None:
        """Regulars part: one half keeps the id, the other has one that was never given."""
        n, (visits, basket, *rest) = self.kinds.pop("regulars")
        self.kinds["mornings"] = (round(0.6 * n), (visits + 6.0, basket, *rest))
        self.kinds["evenings"] = (round(0.4 * n), (visits - 2.0, basket + 30.0, *rest))
        self.table()
        said = self.run(0)
        found = self.ids_of(self.out(), self.date())
        new = {found["mornings"], found["evenings"]} - {self.ids["regulars"]}
        assert new.isdisjoint(self.ids.values()), found
        assert f"new {new.pop()}" in said, said
        del self.ids["regulars"]
        self.same()
        self.day += 1

    def again(self) -> None:
        """A night that others went on from is done again with another seed."""
        self.next()
        self.next()
        later, self.day = self.day, self.day - 2
        seed = ["--set", "model.seed=1"]
        self.run(78, "already published by a different configuration", more=seed)
        more = [*seed, "--overwrite"]
        self.run(0, f"from which later ones went on: {self.date(later - 1)}", more=more)
        self.same()
        self.day = later

    def replaced_in_place(self) -> None:
        """Runs replace each other in one output: an older date says so, and there is a way back."""
        for day in (self.day - 2, self.day - 1):
            self.day, now = day, self.day
            self.run(0, job="here", more=["--overwrite"])
            self.day = now
        self.day -= 2
        self.run(0, rf"replaces run \S+ of {self.date(self.day + 1)}, which is later",
                 job="here", more=["--overwrite"])  # fmt: skip
        self.told(
            0, f"of {self.date(self.day + 1)} is published again", command=["rollback", "now"]
        )
        self.day += 2

    def one_model(self) -> None:
        """A model that labels every night holds back one that is in another unit."""
        self.table(unit=1000.0)
        more = ["--set", "model.mode=assign"]
        self.run(76, "max_outlier_share|max_drift", more=more)
        self.table(seed=1)
        self.run(0, more=more)
        self.same()
        self.day += 1

    def looked_at(self) -> None:
        """The history has a line for each night; old ones go, and the next night goes on."""
        said = self.told(0, r"^date +run +rows", command=["history", "out"])
        published = [one.parent.name for one in (self.folder / "out").glob("*/manifest.json")]
        lines = [line for line in said.splitlines()[1:] if "nothing is published" not in line]
        assert [line.split()[0] for line in lines] == sorted(published)
        assert len(said.splitlines()) == 2 + len(lines), "one night was withdrawn"
        page = ["history", "out", "--page", "history.html"]
        self.told(0, command=page)
        assert f"  {self.ids['givers']} back  " in said
        assert "<svg" in (self.folder / "history.html").read_text()
        self.told(0, "removed", command=["gc", "out", "--keep", "3"])
        self.next()
        nights = json.loads(self.told(0, command=["history", "out", "--json"]))["nights"]
        assert 3 <= len(nights) < len(published)


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="shop-"))
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    shop = Nights(folder, in_a_shell(folder), short=False)
    shop.all()
    seconds = time.monotonic() - begun
    print(f"{shop.day} nights, {shop.commands} commands, {seconds:.0f} s: all as documented")
    return 0


if __name__ == "__main__":
    sys.exit(main())
