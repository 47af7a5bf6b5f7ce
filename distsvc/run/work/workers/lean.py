"""Functions that make the processes of commands and workers start and end faster."""

import atexit
import gc
import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder


def lean() -> None:
    """Make this process start and end faster, for a command or a worker.

    From now on, an import of pandas fails, and garbage is rarely collected.
    """
    gc.set_threshold(1_000_000)  # imports create a million objects, and no garbage
    atexit.register(gc.freeze)  # no collection at the end
    if not is_lean():
        sys.meta_path.insert(0, _WithoutPandas())


def is_lean() -> bool:
    """Return True if this is the process of a command or a worker."""
    return any(isinstance(finder, _WithoutPandas) for finder in sys.meta_path)


def skip_docstrings() -> None:
    """Make the import of matplotlib faster: it then skips lists of properties in docstrings."""
    # Making these lists takes a third of matplotlib's import, and commands never show them.
    if is_lean():
        with suppress(ImportError):
            from matplotlib import artist

            artist.kwdoc = lambda artist: ""
            artist.Artist._update_set_signature_and_docstring = lambda: None  # type: ignore


class _WithoutPandas(MetaPathFinder):
    """Hides pandas, which pyarrow would import with its first array."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"distsvc does not import {fullname}", name=fullname)
