"""The name of a class is used once: who reads it knows which class is meant."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import distsvc

ROOT = Path(distsvc.__file__).parent.parent


def class_names(node: ast.AST) -> Iterator[str]:
    """Yield the names of a module's classes, public or not, but of none inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield child.name
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from class_names(child)


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
