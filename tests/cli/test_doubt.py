"""The last lines of a run have the doubt with which its page begins."""

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from tests.report.reports import make_levels_report, typed


@pytest.mark.parametrize(
    ("support", "words"),
    [
        (
            0.1,
            "no reliable clusters in 1,500 rows (the labels are a best guess with 3 groups; only "
            "10.0% of the models agree), 2.1% outside every",
        ),
        (0.9, "3 clusters in 1,500 rows, 2.1% outside every"),
    ],
)
def test_the_last_lines_have_the_doubt(support, words, monkeypatch):
    made = make_levels_report("spiral")
    made["model"]["fitted"] |= {"agreement": 0.9, "support": support}
    job = SimpleNamespace(output=SimpleNamespace(path="out"))
    monkeypatch.setattr("distsvc.cli.main.run_and_announce", lambda *_, **__: (job, typed(made)))
    found = CliRunner().invoke(main, ["run", "moons.csv"])
    assert found.exit_code == 0
    assert found.stdout.startswith(words)


def test_so_they_have_a_doubt_about_clusters_that_are_clear(monkeypatch):
    made = make_levels_report("spiral") | {"doubts": ["clusters 0 and 1 differ only in premium"]}
    job = SimpleNamespace(output=SimpleNamespace(path="out"))
    monkeypatch.setattr("distsvc.cli.main.run_and_announce", lambda *_, **__: (job, typed(made)))
    found = CliRunner().invoke(main, ["run", "moons.csv"])
    assert found.stdout.startswith(
        "3 clusters in 1,500 rows, but clusters 0 and 1 differ only in premium, 2.1% outside"
    )
