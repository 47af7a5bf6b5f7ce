"""Where a run has its output: a folder, or a bucket of a store that fails.

What is in a bucket is copied to the folder, where it is judged like any other output.
"""

from pathlib import Path
from typing import Any

from chaos.processes import Started
from chaos.store import SECRET, Store, Trouble


class OnDisk:
    """The folder ``out`` in a folder.

    `output` is as drivers are told of it, `base` what it is in, and `environment` what drivers
    need to find it.
    """

    def __init__(self, folder: Path):
        self._out = folder / "out"
        self.output, self.base = "out", str(folder)
        self.environment: dict[str, str] = {}

    def watch(self, log: Path, fault: dict[str, Any]) -> dict[str, Any] | None:
        """Have changes logged from now on; return the settings of the process that makes them."""
        return {"under": str(self._out), "log": str(log)} | fault

    def started(self, process: Started) -> None:
        """Tell which process it is."""

    def look(self) -> list[str]:
        """Have in the folder what the output holds; return what is wrong with that."""
        return []

    def close(self) -> None:
        """Remove what is not in the folder."""


class InStore:
    """A bucket, in which the folder ``out`` is put first; its attributes are those of `OnDisk`.

    `rate` is the share of requests that go wrong where nothing else is asked for.
    """

    def __init__(self, folder: Path, store: Store, bucket: str, seed: int = 0, rate: float = 0.0):
        self._folder, self._store, self._bucket = folder, store, bucket
        self._trouble = {"seed": seed, "rate": rate}
        self._traffic, self._known = store.make(bucket), {}
        self.base = f"s3://{bucket}"
        self.output = f"{self.base}/out"
        (folder / "tmp").mkdir(exist_ok=True)
        self.environment = store.environment() | {"TMPDIR": str(folder / "tmp")}
        store.upload(folder / "out", bucket, "out")
        self._known = store.keys(bucket)

    def watch(self, log: Path, fault: dict[str, Any]) -> dict[str, Any] | None:
        """Have changes logged, and requests go wrong, from now on."""
        self._traffic.begin(Trouble(**self._trouble | fault), log)

    def started(self, process: Started) -> None:
        """Tell which process a kill at a request is meant for."""
        if not self._traffic.victim.done():
            self._traffic.victim.set_result(process)

    def look(self) -> list[str]:
        """Fetch what is new in the bucket; the key of the store must be nowhere."""
        self._known = self._store.fetch(self._bucket, self._folder, self._known)
        files = [path for path in self._folder.rglob("*") if path.is_file()]
        found = [path for path in files if SECRET.encode() in _bytes_of(path)]
        return [f"the store's key is in {path.relative_to(self._folder)}" for path in found]

    def close(self) -> None:
        """Remove the bucket."""
        self._store.drop(self._bucket)


def _bytes_of(path: Path) -> bytes:
    """Return what a file holds; nothing where a living driver has just removed it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
