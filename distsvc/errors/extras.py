"""Import of optional packages, which an extra such as distsvc[delta] installs."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from distsvc.errors import MissingExtraError


def required(package: str, extra: str, what: str) -> ModuleType:
    """Import and return an optional package or module.

    `extra` is the extra of distsvc that installs it. Errors are raised as in `check_extra`.
    """
    check_extra(package, extra, what)
    return import_module(package)


def check_extra(package: str, extra: str, what: str) -> None:
    """Raise `MissingExtraError` if an optional package is not installed.

    The message begins with `what`, the name of the feature or table that needs the package.
    """
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
