"""A phase whose work is lost and done again."""

from dataclasses import dataclass, field
from pathlib import Path

from distsvc.run.work.phases import Phase
from tests.jobs.blob_jobs import files


@dataclass(frozen=True)
class DoneTwice(Phase):
    """Does everything twice by hand, as after a lost worker, and checks that no byte differs.

    `seen` collects the digests of the results.
    """

    seen: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, phase: Phase) -> "DoneTwice":
        return cls(phase.name, phase.task, phase.sequential)

    def do(self, run_dir: str, number: int) -> int:
        rows, before = super().do(run_dir, number), files(run_dir)
        for lost in Path(run_dir).glob(f"results/{self.result(number)}.*"):
            lost.unlink()
        assert files(run_dir) != before
        assert super().do(run_dir, number) == rows
        assert files(run_dir) == before
        self.seen.append(before[f"results/{self.result(number)}.npz"])
        return rows
