"""Candidates that a check held back: manifests beside the published one, named after their runs."""

from __future__ import annotations

from distsvc.storage.places.arrays import json_bytes, parse_json, read_json
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.manifest import Manifest, checked_form, names_in

HELD, REPLACED = "held", "replaced"

KEPT = 3
"""Candidates that an output keeps, the newest: each is a whole result."""


def held_in(runs: Store) -> dict[str, Manifest]:
    """Return the manifests that are held back, by their runs; `DataError` for a damaged one."""
    found = {}
    for name in runs.sizes(HELD):
        manifest = checked_form(read_json(runs.local(name)), f"{runs.address}/{name}")
        found[manifest.run_id] = manifest
    return found


def let_go(runs: Store, run_id: str | None, published: Manifest | None) -> None:
    """Hold a candidate back no more; its files that are not published are removed in due time."""
    record = f"{HELD}/{run_id}.json"
    found = runs.current(record)
    if found is not None:
        kept = published.names if published else []
        lost = [name for name in names_in(parse_json(found[0], record)) if name not in kept]
        files = {"files": [{"file": name} for name in lost]}
        runs.put(f"{REPLACED}/{run_id}.json", json_bytes(files))
        runs.remove(record)


def given_up(runs: Store, run_id: str) -> list[str]:
    """Hold back no more than `KEPT` candidates, of which `run_id` is the newest.

    Returns the others, the oldest first. Their files go as `let_go` says.
    """
    others = [one for name, one in held_in(runs).items() if name != run_id]
    others.sort(key=lambda one: (one.created, one.run_id))
    gone = [one.run_id for one in others[: max(len(others) + 1 - KEPT, 0)]]
    for name in gone:
        let_go(runs, name, None)
    return gone
