"""Names of classes and public constants are unique in the package."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import distsvc

ROOT = Path(distsvc.__file__).parent.parent


def class_names(node: ast.AST) -> Iterator[str]:
    """Yield the names of a module's classes, except of those inside functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield child.name
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from class_names(child)


def constant_names(module: ast.Module) -> Iterator[str]:
    """Yield the names of a module's public constants, but not of type variables."""
    for node in module.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        for name in (name for target in targets for name in ast.walk(target)):
            if isinstance(name, ast.Name) and re.fullmatch("[A-Z][A-Z0-9_]+", name.id):
                yield name.id


def test_a_class_name_is_used_once():
    homes = defaultdict(list)
    for package in ("distsvc", "benchmarks"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in class_names(ast.parse(path.read_text())):
                homes[name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_a_class_inside_a_function_is_not_counted():
    source = "class A:\n    class B: ...\n\ndef f():\n    class A: ...\n\nif A:\n    class C: ...\n"
    assert list(class_names(ast.parse(source))) == ["A", "B", "C"]


def test_a_constant_name_is_used_once():
    homes = defaultdict(list)
    for path in sorted((ROOT / "distsvc").rglob("*.py")):
        for name in constant_names(ast.parse(path.read_text())):
            homes[name].append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_constants_are_names_of_a_module_in_capitals():
    source = "A1 = B = 0\nC, D2 = 1, 2\nE: int = 3\n_F = 4\nT = 5\ng = 6\ndef h():\n    II = 7\n"
    assert list(constant_names(ast.parse(source))) == ["A1", "D2"]
