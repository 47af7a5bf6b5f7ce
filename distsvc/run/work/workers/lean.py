"""What a process that is all ours does without, so that it starts and ends sooner."""

from __future__ import annotations

import atexit
import gc
import sys
from importlib.abc import MetaPathFinder
from typing import Any

OBJECTS = 50_000
"""New ones before a search for garbage. Imports make a million, and leave none."""


def lean() -> None:
    """Leave out pandas, which is never used, and most searches for garbage."""
    gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)  # nor are they searched once more at the end
    if not is_lean():
        sys.meta_path.insert(0, _WithoutPandas())


def is_lean() -> bool:
    """Return whether this process is all ours: that of a command, or a worker."""
    return any(isinstance(finder, _WithoutPandas) for finder in sys.meta_path)


class _WithoutPandas(MetaPathFinder):
    """Says that pandas is not installed.

    For its first array, pyarrow imports pandas where it finds it, to know a series when it meets
    one: a tenth of all that is imported, in time and in memory.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not used here", name=fullname)
