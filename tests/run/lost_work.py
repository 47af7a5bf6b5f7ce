"""A phase whose work is lost and done again."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from distsvc.run.phases import Phase


@dataclass(frozen=True)
class DoneTwice(Phase):
    """Does everything twice by hand, as after a lost worker, and checks that no byte differs.

    `seen` collects the digests of the results.
    """

    seen: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, phase: Phase) -> "DoneTwice":
        return cls(phase.name, phase.task)

    def do(self, run_dir: str, number: int) -> int:
        rows = super().do(run_dir, number)
        before = digests(run_dir)
        results = Path(run_dir) / "results"
        for lost in results.glob(f"{self.result(number)}.*"):
            lost.unlink()
        assert digests(run_dir) != before
        assert super().do(run_dir, number) == rows
        assert digests(run_dir) == before
        self.seen.append(before[results / f"{self.result(number)}.npz"])
        return rows


def digests(folder: str | Path) -> dict[Path, str]:
    """The SHA-256 of every file below a folder."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }
