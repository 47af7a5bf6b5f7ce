"""Public names are documented: every docstring has an example that runs, defaults and types.

Errors need no example and no "See Also", and methods no "See Also". A method may inherit its
docstring. Examples run in a folder with `moons.csv`, `job.toml` and `out/moons`: the table, the
file and the result of the README's first job.
"""

import doctest
import importlib
import inspect
import re
import shutil
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from sklearn.datasets import make_moons

import distsvc
import distsvc.published.saved_model

ROOT = Path(__file__).parents[1]
MODULES = [
    "distsvc",
    "distsvc.baselines",
    "distsvc.errors",
    "distsvc.metrics",
    "distsvc.mlflow",
    "distsvc.plot",
]
OWN = {"distsvc.Model": distsvc.published.saved_model.Model}
"""Public objects that are reached by an attribute of another."""

SECTION = re.compile(r"^(\w[\w ]+)\n-+$", re.MULTILINE)
PARAMETER = re.compile(r"^(\*{0,2}\w+)(?: : (.*))?$", re.MULTILINE)


def public() -> dict[str, object]:
    """Return the public classes and functions by their names."""
    found = dict(OWN)
    for name in MODULES:
        module = importlib.import_module(name)
        own = [one for one in vars(module) if not one.startswith("_")]
        for one in getattr(module, "__all__", own):
            what = getattr(module, one)
            is_error = name == "distsvc.errors"  # whose functions are our own
            here = inspect.isclass(what) or (isinstance(what, FunctionType) and not is_error)
            if here and (hasattr(module, "__all__") or what.__module__ == name):
                found[f"{name}.{one}"] = what
    return found


def methods(of: type) -> dict[str, FunctionType]:
    """Return the public methods of a class that distsvc defines, those of its bases too."""
    found = {}
    for name in dir(of):
        method = inspect.getattr_static(of, name)
        method = getattr(method, "__func__", method)
        own = isinstance(method, FunctionType) and method.__module__.startswith("distsvc")
        if own and not name.startswith("_"):
            found[name] = method
    return found


PUBLIC = public()
DOCUMENTED = {
    f"{what.__module__}.{what.__qualname__}": what
    for owner in PUBLIC.values()
    for what in (owner, *(methods(owner).values() if inspect.isclass(owner) else ()))
}
"""Classes, functions and methods by the names of their homes, each once."""

SHOWN = {
    name: what
    for name, what in DOCUMENTED.items()
    if not (inspect.isclass(what) and issubclass(what, Exception))
}
"""What needs an example."""


def sections(what: object) -> dict[str, str]:
    """Return the sections of a docstring in NumPy's style."""
    parts = SECTION.split(inspect.getdoc(what) or "")
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters(what: object) -> dict[str, inspect.Parameter]:
    """Return the parameters that a caller gives."""
    given = inspect.signature(what).parameters
    return {name: one for name, one in given.items() if name not in ("self", "cls")}


@pytest.fixture(scope="module")
def first_job(tmp_path_factory):
    """Return a folder in which the first job has been run."""
    folder = tmp_path_factory.mktemp("first")
    X, _ = make_moons(1000, noise=0.06, random_state=0)
    np.savetxt(folder / "moons.csv", X, fmt="%.4f", delimiter=",", header="x,y", comments="")
    sections = '[input]\npath = "moons.csv"\n\n[output]\npath = "out/moons"\n'
    (folder / "job.toml").write_text(sections)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        distsvc.run("job.toml")
    return folder


@pytest.mark.parametrize("name", SHOWN)
def test_examples_print_what_they_say(name, first_job, tmp_path, monkeypatch, request):
    monkeypatch.chdir(shutil.copytree(first_job, tmp_path / "here"))
    if name.startswith("distsvc.mlflow"):
        request.getfixturevalue("mlflow_store")
    assert "Examples" in sections(DOCUMENTED[name])
    text = inspect.getdoc(DOCUMENTED[name])
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    printed = []
    ran = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=printed.append)
    assert ran.attempted > 0
    assert ran.failed == 0, "".join(printed)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_parameter_has_a_line_with_its_type_and_default(name):
    what = DOCUMENTED[name]
    if inspect.isclass(what) and what.__init__ is not vars(what).get("__init__"):
        return
    given = parameters(what)
    if what in OWN.values() or what is distsvc.Run:  # made by functions, not by callers
        return
    said = sections(what)
    text = said.get("Parameters", "") + said.get("Other Parameters", "")
    lines = dict(PARAMETER.findall(text))
    assert [name.lstrip("*") for name in lines] != [] or not given
    assert {name.lstrip("*") for name in lines} == set(given)
    for key, one in given.items():
        if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            continue
        kind = lines[key]
        assert kind, f"{key} has no type"
        if one.default is not one.empty:
            default = repr(one.default).replace("'", '"')
            assert kind.endswith(f"default={default}"), f"{key}: {kind!r} for {default}"


@pytest.mark.parametrize("name", [n for n, w in DOCUMENTED.items() if isinstance(w, FunctionType)])
def test_every_function_says_what_it_returns(name):
    said = sections(DOCUMENTED[name])
    returns = inspect.signature(DOCUMENTED[name]).return_annotation not in (None, "None")
    assert ("Returns" in said or "Yields" in said) == returns


@pytest.mark.parametrize("name", [name for name, what in SHOWN.items() if what in PUBLIC.values()])
def test_every_docstring_says_what_else_there_is(name):
    assert " : " in sections(DOCUMENTED[name])["See Also"]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_reference_page(name):
    pages = [page.read_text() for page in (ROOT / "docs/reference/api").glob("*.rst")]
    home = f"distsvc.published.saved_model.{name.rpartition('.')[2]}" if name in OWN else name
    shown = rf"^\.\. auto\w+:: {re.escape(home)}$"
    assert sum(bool(re.search(shown, page, re.MULTILINE)) for page in pages) == 1
