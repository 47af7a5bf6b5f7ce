"""Stores of files: a folder of a disk, or a prefix of a bucket.

Names are paths below the store, with ``/``. A file is written once, whole or not at all. The few
files that change (a manifest, the record of a holder) are replaced in one step by `Folder.swap`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias

from distsvc.errors import JobFileError
from distsvc.errors.urls import bare_url
from distsvc.storage.places.arrays import file_facts
from distsvc.storage.places.bucket import SCHEME, Bucket
from distsvc.storage.places.folder import Folder

Store: TypeAlias = Folder | Bucket
"""A folder of files, on a disk or in a bucket; `Folder` documents the methods of both."""


def changed_since(place: Store, known: Mapping[str, Mapping[str, int | str]]) -> list[str]:
    """Return the files that are missing, or differ from what `arrays.file_facts` returned before.

    After a loss of power, a file on a disk may have other bytes. Objects in a bucket are whole, so
    only their sizes are compared.
    """
    there = place.sizes() if known else {}
    changed = [name for name, file in known.items() if there.get(name) != file["bytes"]]
    if isinstance(place, Folder):
        same = (name for name in known if name not in changed)
        changed += [n for n in same if file_facts(place.local(n))["sha256"] != known[n]["sha256"]]
    return changed


def store_of(address: str | os.PathLike[str]) -> Store:
    """Return the store at a path or URL; `JobFileError` for a URL of another kind."""
    scheme, separator, _ = str(address).partition("://")
    if not separator:
        return Folder(address)
    if scheme != SCHEME:
        raise JobFileError(
            f"expected a folder of a local or shared disk, or a URL of {SCHEME}://, found "
            f"{bare_url(str(address))!r}"
        )
    return Bucket(str(address))
