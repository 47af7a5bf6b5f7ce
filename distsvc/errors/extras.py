"""Packages that come with an extra of distsvc."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from distsvc.errors import MissingExtraError


def required(package: str, extra: str, what: str) -> ModuleType:
    """Import and return a package or module of an extra; errors as in `check_extra`."""
    check_extra(package, extra, what)
    return import_module(package)


def check_extra(package: str, extra: str, what: str) -> None:
    """Raise `MissingExtraError` if a package is not installed; `what` says what needs it."""
    name = package.partition(".")[0]
    if not is_installed(name):
        raise MissingExtraError(
            f"{what} needs {name}, which comes with distsvc[{extra}]: "
            f"pip install 'distsvc[{extra}]'"
        )


def is_installed(package: str) -> bool:
    """Return True if a package can be imported."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False
