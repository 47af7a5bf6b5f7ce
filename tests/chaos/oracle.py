"""What a disturbed run may leave: a whole result, identical to an undisturbed one's, and no more.

A result is read as a reader should: through ``manifest.json`` and what it lists, wherever it lies.
Files are told apart by their place in the result, without the folder of the run.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from chaos.looking import RUN, place_of

FOR_PEOPLE = ("report.html", "report.json")
OWN = {"manifest.json", "_SUCCESS", *FOR_PEOPLE}
"""Files at the top of an output that a manifest need not list."""

NOT_COMPARED = ("created", "versions", "files", "write_id")
"""Of a manifest, what two runs of one job may differ in; its files are compared by their places."""

CODES = {0, 65, 66, 70, 75, 77, 78, 130, 143}
"""What a run may end with; 1 is a defect, and 2 a mistake of whoever calls."""


class TornError(Exception):
    """A published result that is not whole; the arguments say why."""


@dataclass(frozen=True)
class Result:
    """A published result without what differs between two runs of one job.

    `files` has the SHA-256 of each file, by its place, but for the page and its numbers;
    `listed` has all listed files, as the manifest names them.
    """

    manifest: dict[str, Any]
    report: dict[str, Any]
    files: dict[str, str]
    listed: frozenset[str]

    def differences(self, other: "Result") -> list[str]:
        """Name what is not as in another result."""
        names = sorted(self.files.keys() | other.files.keys())
        found = [f"{n} differs" for n in names if self.files.get(n) != other.files.get(n)]
        for what in ("manifest", "report"):
            mine, theirs = getattr(self, what), getattr(other, what)
            keys = sorted(mine.keys() | theirs.keys())
            found += [f"{what}: {k} differs" for k in keys if mine.get(k) != theirs.get(k)]
        return found


def published(out: Path, base: str | None = None) -> Result | None:
    """Return what is published in a folder, every listed file checked; None if nothing is.

    `base` is where the run has its input and its output, which is not compared; the folder that
    holds `out`, where it is not said. Raises `TornError` where the manifest is damaged, or
    lists what is not there or has other bytes.
    """
    try:
        text = (out / "manifest.json").read_text()
    except FileNotFoundError:
        return None
    try:
        manifest = json.loads(text)
        listed = [(entry["file"], entry["bytes"], entry["sha256"]) for entry in manifest["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise TornError(f"manifest.json is damaged: {error!r}") from None
    problems, contents = [], {}
    for name, size, digest in listed:
        try:
            content = contents[name] = (out / name).read_bytes()
        except OSError as error:
            problems.append(f"{name}: {type(error).__name__}")
            continue
        if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
            problems.append(f"{name} is not what the manifest lists")
    problems += _unreadable(out, manifest, contents)
    if problems:
        raise TornError(*problems)
    return _comparable(base or str(out.parent), manifest, contents)


def _unreadable(out: Path, manifest: dict, contents: dict[str, bytes]) -> list[str]:
    """Read the labels: their rows are those that the manifest counts."""
    parts = [n for n in contents if n.startswith("labels/") and n.endswith(".parquet")]
    try:
        rows = sum(pq.read_table(pa.BufferReader(contents[name])).num_rows for name in parts)
    except (pa.ArrowException, OSError) as error:
        return [f"labels can't be read: {error}"]
    if parts and rows != manifest["rows"]:
        return [f"labels have {rows} rows, the manifest says {manifest['rows']}"]
    if not parts and not any(name.endswith("zarr.json") for name in contents):
        return ["no labels are listed"]
    return []


def _comparable(base: str, manifest: dict, contents: dict[str, bytes]) -> Result:
    def plain(text: str) -> str:
        return text.replace(f"{base}/", "").replace(base, ".")

    places = {name: place_of(name) for name in contents}
    files = {
        places[name]: hashlib.sha256(content).hexdigest()
        for name, content in contents.items()
        if places[name] not in FOR_PEOPLE
    }
    report = {}
    for name, content in contents.items():
        if places[name] == "report.json":
            report = json.loads(plain(content.decode()))
    for key in ("finished", "command", "job_file", "distsvc_version", "phases", "forecast"):
        report.pop(key, None)
    kept = {k: v for k, v in manifest.items() if k not in NOT_COMPARED}
    kept = json.loads(RUN.sub("RUN", plain(json.dumps(kept))))
    kept["files"] = sorted([places[one["file"]], one.get("rows")] for one in manifest["files"])
    return Result(kept, report, files, frozenset(contents))


def left_behind(out: Path, *, tidy: bool) -> list[str]:
    """Name what lies in an output and should not.

    No run holds the folder `out`. With `tidy` a run has just ended well there: then no work
    files are left, and results of runs that died have gone; what it replaced may stay as long
    as it is listed.
    """
    if not out.exists():
        return []
    allowed = set(OWN) | {".runs/lock", ".runs/holder.json"}
    replaced = sorted((out / ".runs" / "replaced").glob("*.json"))
    for manifest in [out / "manifest.json", *replaced]:
        keys = ("file", "stored") if manifest.name == "manifest.json" else ("stored",)
        try:
            files = json.loads(manifest.read_text())["files"]
            allowed |= {entry.get(key) or entry["file"] for entry in files for key in keys}
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            return [f"{manifest.relative_to(out)} is damaged"]
    found = []
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        below = name.split("/")
        if path.is_dir() and not path.is_symlink():
            empty = tidy and below[0] not in (".runs", "labels") and not any(path.iterdir())
            stale = tidy and below[0] == ".runs" and len(below) == 2 and RUN.fullmatch(below[1])
            if empty or stale:
                found.append(f"folder {name}")
            continue
        if name in allowed or (below[:2] == [".runs", "replaced"] and name.endswith(".json")):
            continue
        work = below[0] == ".runs" or RUN.search(name)
        if tidy or not work:
            found.append(name)
    return found


def unfinished(out: Path, result: Result) -> list[str]:
    """Name what lacks beside a result: the mark of success, and the copies for people."""
    found = [] if (out / "_SUCCESS").exists() else ["_SUCCESS is missing"]
    for name in result.listed:
        place = place_of(name)
        if place in FOR_PEOPLE:
            copy = out / place
            if not copy.exists() or copy.read_bytes() != (out / name).read_bytes():
                found.append(f"{place} is not the copy of {name}")
    return found


def misspoken(code: int, said: str) -> list[str]:
    """Name what is wrong about how a process ended, and about what it said on standard error."""
    found = []
    if code not in CODES:
        found.append(f"exit {code}")
    for word in ("Traceback (most recent", "Exception ignored", "Fatal Python error"):
        if word in said:
            found.append(f"{word!r} on standard error")
    if (
        code > 0
        and code != 143
        and not any(line.strip() and line[0] != "{" for line in said.splitlines())
    ):
        found.append(f"exit {code} without a word")
    return found
