"""The nights of a job as a table."""

import json
import re

import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import CheckFailedError, InputNotFoundError, JobFileError
from distsvc.published.history import HISTORY_COLUMNS, history, history_lines
from tests.jobs.shop import FIRST, SECOND, THIRD, Shop, rows

pytestmark = pytest.mark.usefixtures("quick_page")


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Three nights of a shop: a cluster comes and one goes, and the last is held back."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 200, 0, 150, seed=1)[0])
    shop.table(THIRD, rows(300, 200, 0, 150, seed=2)[0])
    off = {"max_drift": False, "min_rows": {"limit": 640, "level": "warn"}}
    shop.run(FIRST, checks=off)
    shop.run(SECOND, checks=off)
    with pytest.raises(CheckFailedError):
        shop.run(THIRD, checks={"min_rows": 1000})
    return shop


def test_fields_of_every_night(nights):
    first, second, third = history(str(nights.folder / "out"))
    assert [one.date for one in (first, second, third)] == [FIRST, SECOND, THIRD]
    assert (first.rows, first.clusters, first.moved, first.new) == (600, 3, None, [])
    assert (second.previous, second.clusters) == (first.run_id, 3)
    assert (second.new, second.gone) == ([3], [2])
    assert (first.warned, second.warned) == (["min_rows"], [])
    assert second.drift > 0.1
    assert second.drifted in ("x0", "x1")
    assert (third.run_id, third.odd, len(third.held)) == ("", "nothing is published", 1)
    assert third.checked == "min_rows failed"


def test_the_table_has_a_line_for_each_night(nights):
    said = CliRunner().invoke(main, ["history", str(nights.folder / "out")])
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    header = [name for name, _ in HISTORY_COLUMNS]
    assert lines[0].split() == header
    shown = {line.split()[0]: line for line in lines[1:]}
    assert "min_rows warned" in shown[FIRST]
    columns = dict(zip(header, shown[SECOND].split(), strict=False))
    assert (columns["rows"], columns["new"], columns["gone"]) == ("650", "3", "2")
    assert "nothing is published" in shown[THIRD]
    said = CliRunner().invoke(main, ["history", str(nights.folder / "out"), "--json"])
    told = json.loads(said.stdout)["nights"]
    known = history(str(nights.folder / "out"))
    assert [one["run_id"] for one in told] == [one.run_id for one in known]


def test_the_page_links_to_the_pages_of_the_nights(nights, tmp_path):
    page = tmp_path / "history.html"
    out = nights.folder / "out"
    said = CliRunner().invoke(main, ["history", str(out), "--page", str(page)])
    assert said.exit_code == 0, said.output
    assert said.stdout.splitlines()[-1] == str(page)
    assert re.search(r">0 \w[^<]*<", page.read_text()), "the latest name"
    links = re.findall('<a href="([^"]*)"', page.read_text())
    pages = [(out / day / "report.html").resolve() for day in (SECOND, FIRST)]
    assert [(tmp_path / link).resolve() for link in links] == pages


def test_a_page_must_be_a_file_in_an_existing_folder(nights, tmp_path):
    out = str(nights.folder / "out")
    for page, words in (
        ("s3://bucket/h.html", "local file"),
        (f"{tmp_path}/no/h", "file in an existing"),
    ):
        said = CliRunner().invoke(main, ["history", out, "--page", page])
        assert (said.exit_code, f"--page: expected a {words}" in said.stderr) == (78, True)


def test_several_jobs_have_a_heading_each(nights):
    known = history(str(nights.folder / "out"))
    named = [one.model_copy(update={"job": "b" if one.held else "a"}) for one in known]
    lines = history_lines(sorted(named, key=lambda one: (one.job, one.date)))
    assert (lines[1], lines[4]) == ("a:", "b:")


def test_a_night_that_can_not_be_read_has_the_error(nights, tmp_path):
    (tmp_path / "out/x").mkdir(parents=True)
    (tmp_path / "out/x/manifest.json").write_text("{")
    (night,) = history(str(tmp_path / "out"))
    assert "manifest.json" in night.odd
    (tmp_path / "out/empty/.runs").mkdir(parents=True)
    assert history(str(tmp_path / "out")) == [night], "there is nothing to tell of"
    with pytest.raises(InputNotFoundError, match="no run was published in"):
        history(str(tmp_path / "in"))
    with pytest.raises(JobFileError, match="which contains other files, too"):
        history("/")


def test_a_night_continues_from_a_given_output(nights, no_signals):
    """The third night continues the first, not the second."""
    off = {"max_drift": False}
    job = str(nights.job_file(checks=off))
    asked = ["run", job, "--run-date", THIRD, "--fresh", "--continue-from"]
    said = CliRunner().invoke(main, [*asked, str(nights.folder / "nowhere")])
    assert said.exit_code == 66
    assert "--continue-from: no run is published in" in said.stderr
    said = CliRunner().invoke(main, [*asked, str(nights.out(FIRST))])
    assert said.exit_code == 0, said.output
    lineage = nights.said(THIRD, "report.json")["lineage"]
    assert lineage["run_id"] == nights.manifest(FIRST)["run_id"]
