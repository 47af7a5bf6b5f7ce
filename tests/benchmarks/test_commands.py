"""The commands about the papers are documented, and bring data sets."""

import json
import re

import click
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.cli import commands
from tests.processes import python

HEAVY = {"numpy", "sklearn", "scipy", "numba", "distributed", "pyarrow", "matplotlib"}
LEAVES = [one for group in commands.commands.values() for one in group.commands.values()]


@pytest.mark.parametrize("command", LEAVES, ids=lambda command: command.name)
def test_every_command_and_option_has_a_help_text(command):
    assert command.help
    assert all(p.help for p in command.params if isinstance(p, click.Option))


@pytest.mark.parametrize("group", commands.commands)
def test_the_groups_are_commands_of_the_benchmarks(group, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([group, "--help"])
    assert f"Usage: python -m benchmarks {group}" in capsys.readouterr().out


def test_the_list_of_the_data_sets_imports_nothing_heavy():
    code = "import sys; sys.argv[1:] = ['datasets', 'list']\nfrom benchmarks.cli import commands\n"
    code += "try: commands()\nfinally: print(*{name.split('.')[0] for name in sys.modules})"
    found = python("-c", code)
    *lines, modules = found.stdout.splitlines()
    assert set(modules.split()) & HEAVY == set()
    assert lines[0].split() == ["name", "group", "rows", "columns", "classes", "source"]
    by_name = {line.split()[0]: line for line in lines[1:]}
    assert re.search(r"bsgd +150 +4 +3 +scikit-learn load_iris$", by_name["iris"])
    assert re.search(r"bsgd +58,000 +9 +7 +OpenML 40685, shuttle, version 1$", by_name["shuttle"])
    assert re.search(r"outliers +3,062 +166 +2 +--from only$", by_name["outliers/musk"])


def test_the_list_of_the_data_sets_as_json():
    found = CliRunner().invoke(commands, ["datasets", "list", "--json"])
    sets = {one["name"]: one for one in json.loads(found.stdout)}
    assert sets["glass"]["class_counts"] == [70, 76, 17, 13, 9, 29]
    assert sets["glass"]["printed"] == {"pham-2017": "7 classes"}
    assert sets["glass"]["openml"]["id"] == 41
    assert sets["rings"]["source"] == "--from only"


def test_fetching_a_data_set(tmp_path):
    runner = CliRunner()
    found = runner.invoke(commands, ["datasets", "fetch", "iris", "--out", f"{tmp_path}/a"])
    assert (found.exit_code, found.stdout) == (0, f"{tmp_path}/a/bsgd/iris.parquet\n")
    places = ["--from", f"{tmp_path}/a", "--out", f"{tmp_path}/b"]
    found = runner.invoke(commands, ["datasets", "fetch", "iris", *places, "--json"])
    facts = json.loads(found.stdout)
    assert (facts["path"], facts["rows"]) == (f"{tmp_path}/b/bsgd/iris.parquet", 150)
    assert pq.read_table(facts["path"]).column_names == ["f0", "f1", "f2", "f3", "label"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["irs"], 66, "error: no data set 'irs' in the catalogue; did you mean iris?\n"),
        (["rings"], 66, "give a folder that has shapes/rings.parquet (--from DIR)\n"),
        (["iris", "--from", "nowhere"], 66, "error: iris: no file nowhere/bsgd/iris.parquet\n"),
    ],
)
def test_a_data_set_that_can_not_be_fetched(arguments, code, message):
    found = CliRunner().invoke(commands, ["datasets", "fetch", *arguments])
    assert (found.exit_code, found.stdout) == (code, "")
    assert found.stderr.endswith(message)
