"""A night that a scheduler runs again, with the command of its recipe, harms no other."""

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from tests.jobs.shop import FIRST, SECOND, THIRD, Shop, rows
from tests.small_runs import forget

pytestmark = pytest.mark.usefixtures("quick_page")

DEPLOY = Path(__file__).parents[2] / "deploy"


def command(recipe):
    """Return the command of a recipe, by the constant that it is."""
    for node in ast.parse((DEPLOY / recipe).read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "COMMAND":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{recipe} has no COMMAND")


def again(shop, recipe, date):
    """Run a task for a date; return what it said."""
    forget()
    _, subcommand, _, *options = command(recipe)
    job = shop.job_file(checks={"max_drift": False})
    done = CliRunner().invoke(main, [subcommand, str(job), *options, "--run-date", date])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("recipe", ["airflow_dag.py", "dagster_asset.py"])
def test_clear_and_rerun(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    shop = Shop(tmp_path)
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 200, 0, 150, seed=1)[0])
    shop.table(THIRD, rows(300, 200, 90, 150, seed=2)[0])
    model = {"model": {"algorithm": "support-vector", "effort": "fast"}}
    shop.job_file = lambda _job_file=shop.job_file, **keys: _job_file(**(model | keys))
    for date in (FIRST, SECOND, THIRD):
        again(shop, recipe, date)

    def manifests():
        return {date: (shop.out(date) / "manifest.json").read_bytes()
                for date in (FIRST, SECOND, THIRD)}  # fmt: skip

    def ids(date):
        found = json.loads((shop.out(date) / "report.json").read_text())
        return {one["label"] for one in found["clusters"]}

    published, given = manifests(), {date: ids(date) for date in (FIRST, SECOND, THIRD)}
    for date in (SECOND, FIRST, THIRD):
        again(shop, recipe, date)
    assert manifests() == published, "nothing has changed, so nothing is replaced"

    shop.table(SECOND, rows(300, 200, 0, 150, seed=9)[0])  # the table of a past night is mended
    said = again(shop, recipe, SECOND)
    assert f"from which later ones went on: {THIRD}" in said
    now = manifests()
    assert (now[FIRST], now[THIRD]) == (published[FIRST], published[THIRD])
    assert now[SECOND] != published[SECOND]
    assert ids(SECOND) - given[FIRST] <= {max(given[THIRD]) + 1, *given[SECOND]}
    again(shop, recipe, THIRD)
    assert manifests()[THIRD] != published[THIRD], "it goes on from the mended night"
    kept = ids(SECOND) & ids(THIRD)
    assert {0, 1} <= kept
