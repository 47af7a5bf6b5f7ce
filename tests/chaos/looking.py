"""How a reader looks at a result: it knows one thing, that ``manifest.json`` lists the files.

It must find every one of them, with the size and the bytes that are listed, whatever happens
meanwhile. Nothing large is imported here: each reader is a process of its own.
"""

import hashlib
import json
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

RUN = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}-[0-9a-f]{8}(?![0-9a-f])")
"""The name of a run."""
BETWEEN = 0.005
"""Seconds from one look to the next."""
READER = "AWS4-HMAC-SHA256 Credential=reader/20260101/us-east-1/s3/aws4_request"
"""Who reads from a store, which asks for a name and checks nothing."""
SECONDS = 120
"""After which a store's answer is not waited for."""


def place_of(name: str) -> str:
    """Return a listed file's place in its result: ``labels/<run>/part-0`` is ``part-0``."""
    steps = [step for step in name.split("/") if not RUN.fullmatch(step)]
    return "/".join(steps[1:] if steps[0] in ("labels", "report") and len(steps) > 1 else steps)


def reading(out: str) -> Callable[[str], bytes]:
    """Return what reads a file of an output, which is a folder or has the URL of a store."""
    if "://" not in out:
        return lambda name: Path(out, name).read_bytes()

    def read(name: str) -> bytes:
        asked = urllib.request.Request(f"{out}/{name}", headers={"Authorization": READER})
        try:
            with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise (FileNotFoundError(name) if error.code == 404 else error) from None

    return read


def read_either(read: Callable[[str], bytes], entry: dict) -> bytes:
    """Read a listed file; where it was replaced, under the path that stays."""
    try:
        return read(entry["file"])
    except FileNotFoundError:
        return read(entry.get("stored") or entry["file"])


def look(read: Callable[[str], bytes], pause: float) -> tuple[str, str]:
    """Read a result once: return which manifest it was, and what was wrong.

    A reader that finds a file gone reads the manifest again. If it has been replaced twice
    meanwhile, the reader was overtaken, which is no fault: "overtaken".
    """
    try:
        text = read("manifest.json")
        manifest = json.loads(text)
    except FileNotFoundError:
        return "", "no manifest"
    except ValueError:
        return "", "a damaged manifest"
    time.sleep(pause)
    which = str(manifest["job_sha256"])
    for entry in manifest["files"]:
        try:
            content = read_either(read, entry)
        except OSError as error:
            with suppress(OSError, ValueError):
                again = read("manifest.json")
                if again != text and json.loads(again)["job_sha256"] == which:
                    return which, "overtaken"
            return which, f"{place_of(entry['file'])}: {type(error).__name__}"
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            return which, f"{place_of(entry['file'])} is of another result"
    return which, ""


def read_in_a_loop(out: str, stop: Path, pause: float, seed: int) -> dict:
    """Read until the file `stop` is there; return the counts of reads and of what was wrong."""
    draw, reads, wrong, seen, read = random.Random(seed), 0, {}, {}, reading(out)
    while not stop.exists():
        which, what = look(read, draw.uniform(0.0, pause))
        reads += 1
        seen[which] = seen.get(which, 0) + 1
        if what:
            wrong[what] = wrong.get(what, 0) + 1
        time.sleep(BETWEEN)
    return {"reads": reads, "wrong": wrong, "seen": seen}
