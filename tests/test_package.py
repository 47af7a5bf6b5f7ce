"""Metadata, workflows and package contents agree with each other."""

import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import distsvc
from tests.matrix import ABSENT, PASSED, main, outcome

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def versions(classifiers) -> list[str]:
    found = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", c) for c in classifiers]
    return [match[1] for match in found if match]


def test_workflows_call_targets_that_exist():
    assert {path.stem for path in WORKFLOWS} == {"lint", "matrix", "docs", "audit", "release"}
    for path in WORKFLOWS:
        called = re.findall(r"run: make (\w+)", path.read_text())
        assert set(called) <= TARGETS, path
        assert called, path


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_few_permissions(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 180
        assert job.get("permissions", {}) in ({}, {"id-token": "write"})
        assert ("permissions" in job) == (name == "publish")
    assert "secrets." not in path.read_text()  # an index trusts the workflow


def test_the_matrix_tests_every_python_of_the_metadata():
    workflow = yaml.safe_load((ROOT / ".github/workflows/matrix.yml").read_text())
    pythons = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert pythons == versions(PROJECT["classifiers"])
    assert re.search(r"^PYTHONS \?= (.*)$", MAKEFILE, re.MULTILINE)[1].split() == pythons
    assert PROJECT["requires-python"] == f">={pythons[0]}"


def test_every_dependency_has_a_lowest_version():
    extras = PROJECT["optional-dependencies"].values()
    lines = PROJECT["dependencies"] + [line for extra in extras for line in extra]
    assert all(">=" in line for line in lines if not line.startswith("distsvc["))


def test_citation_and_changelog_have_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == distsvc.__version__
    assert citation["license"] == PROJECT["license"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]
    changes = (ROOT / "CHANGELOG.md").read_text()
    first = re.search(r"^## ([\d.]+)", changes, re.MULTILINE)
    assert first[1] == distsvc.__version__
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}  # Keep a Changelog
    assert set(re.findall(r"^### (.*)$", changes, re.MULTILINE)) <= kinds


def test_the_description_on_an_index_has_no_links_to_files(monkeypatch):
    told = {}
    stand_in = SimpleNamespace(setup=lambda **given: told.update(given))
    monkeypatch.setitem(sys.modules, "setuptools", stand_in)
    runpy.run_path(str(ROOT / "setup.py"))
    text = told["long_description"]
    assert told["long_description_content_type"] == "text/markdown"
    assert re.findall(r"\]\((?!https?://)|<img|src=", text) == []
    assert "Guide to inputs, columns, outliers" in text


def test_the_source_distribution_has_every_folder():
    manifest = (ROOT / "MANIFEST.in").read_text().split()
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not own(path)}
    files = {path.name for path in ROOT.iterdir() if path.is_file() and not own(path)}
    always = {"distsvc", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"}
    assert folders | files <= set(manifest) | always


def own(path: Path) -> bool:
    """Return True if a file at the top is generated, and no part of the project."""
    made = (ROOT / ".gitignore").read_text().split()
    patterns = {"PKG-INFO", "setup.cfg", ".git", ".coverage", "site", *(p.strip("/") for p in made)}
    return any(path.match(pattern) for pattern in patterns)


def test_the_matrix_reports_missing_pythons(tmp_path, monkeypatch, capsys):
    assert outcome("3.2", "highest", [], tmp_path) == ABSENT
    found = {"3.11": PASSED, "3.2": ABSENT}
    monkeypatch.setattr("tests.matrix.outcome", lambda python, *_: found[python])
    monkeypatch.setattr("sys.argv", ["matrix", "--pythons", "3.11", "3.2", "--resolutions", "a"])
    assert main() == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["3.2", "a", "not", "there"]
    monkeypatch.setattr("sys.argv", ["matrix", "--pythons", "3.2"])
    assert main() == 1
