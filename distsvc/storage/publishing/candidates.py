"""What a check held back: manifests beside the one that is published, each named after its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distsvc.storage.places.arrays import json_bytes, parse_json, read_json
from distsvc.storage.places.place import Place
from distsvc.storage.publishing.manifest import check_manifest

HELD, REPLACED = "held", "replaced"

KEPT = 3
"""Candidates that an output keeps, the newest: each is a whole result."""

Names = Callable[[dict[str, Any]], list[str]]
"""Returns the names of a manifest's files."""


def held_in(runs: Place) -> dict[str, dict[str, Any]]:
    """Return the manifests that are held back, by their runs; `DataError` for a damaged one."""
    found = {}
    for name in runs.sizes(HELD):
        content = read_json(runs.local(name))
        check_manifest(content, f"{runs.address}/{name}")
        found[str(content["run_id"])] = content
    return found


def let_go(runs: Place, run_id: str | None, published: dict[str, Any], names: Names) -> None:
    """Hold a candidate back no more; what it lists and is not published goes in due time."""
    record = f"{HELD}/{run_id}.json"
    found = runs.current(record)
    if found is not None:
        kept = names(published)
        lost = [name for name in names(parse_json(found[0], record)) if name not in kept]
        files = {"files": [{"file": name} for name in lost]}
        runs.put(f"{REPLACED}/{run_id}.json", json_bytes(files))
        runs.remove(record)


def given_up(runs: Place, run_id: str, names: Names) -> list[str]:
    """Hold back no more than `KEPT` candidates, of which `run_id` is the newest.

    Returns the others, the oldest first. What they list goes as `let_go` says.
    """
    others = [one for name, one in held_in(runs).items() if name != run_id]
    others.sort(key=lambda one: (one.get("created", ""), one["run_id"]))
    gone = [str(one["run_id"]) for one in others[: max(len(others) + 1 - KEPT, 0)]]
    for name in gone:
        let_go(runs, name, {}, names)
    return gone
