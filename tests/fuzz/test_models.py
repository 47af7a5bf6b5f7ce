"""Damaged models, manifests and reports end in one line, or in labels or a page all the same."""

from collections import Counter

import pytest

from distsvc.run.reporting import files as report_files
from tests.fuzz import models

TRIED = 100
PAGES = 30


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A published run of every algorithm; drawing their pages would take longest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_files, "page_of", lambda _: "a page")
        yield models.publish(tmp_path_factory.mktemp("runs"))


def test_damaged_models_and_manifests(runs, tmp_path):
    files = ("manifest.json", "model.json", "arrays.npz")
    tried = [models.try_one(runs, tmp_path, 11, number, files) for number in range(TRIED)]
    assert [one for one in tried if one[-1]] == []
    found = Counter(outcome for *_, outcome, _ in tried)
    assert found["DataError"] > TRIED // 2
    assert found["labels"] > TRIED // 20


def test_damaged_reports(runs, tmp_path, monkeypatch):
    svg = "<svg viewBox='0 0 9 9'></svg>"
    draw = "matplotlib.backends.backend_svg.FigureCanvasSVG.print_svg"
    monkeypatch.setattr(draw, lambda _, file, **__: file.write(svg))
    tried = [models.try_one(runs, tmp_path, 12, n, ("report.json",)) for n in range(PAGES)]
    assert [one for one in tried if one[-1]] == []
    assert {outcome for *_, outcome, _ in tried} == {"DataError", "a page"}
