"""The previous night's clusters are replaced only if others are clearly better."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc.run.job import run_job
from tests.published_files import labels_of
from tests.small_runs import small_job, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

CENTRES = np.array([[0, 0, 0, 0], [9, 0, 0, 0], [0, 9, 0, 9], [9, 9, 0, 0], [0, 0, 9, 9]], float)


def night(folder, name, X, previous="", model=None, **continuity):
    """Cluster rows X (n, d) into a folder; return the published labels (n,) and the report."""
    table = write_table(folder / f"{name}.parquet", X)
    sections = {"output": {"path": str(folder / name)}}
    if previous:
        sections["continuity"] = {"previous": str(folder / previous)} | continuity
        sections["checks"] = {"max_drift": False, "same_units": False}
    model = model or {"effort": "fast", "max_iter": 2000, "seed": len(name)}
    report = run_job(small_job(table, model, **sections))
    return labels_of(folder / name), report


def clear(k, seed, n=900):
    random = np.random.default_rng(seed)
    return CENTRES[random.integers(k, size=n)] + random.normal(size=(n, 4))


def faint(seed, n=900):
    """Return rows of two clusters that overlap, so that every sample prefers another answer."""
    random = np.random.default_rng(seed)
    random_places = np.random.default_rng(99).normal(scale=1.7, size=(7, 4))
    return random_places[random.integers(7, size=n)] + random.normal(scale=0.8, size=(n, 4))


def test_a_nearly_as_good_answer_changes_nothing(tmp_path):
    """Two separate nights have different clusters; a night that continues has the first one's."""
    one, _ = night(tmp_path, "one", faint(1))
    X = faint(3)
    alone, _ = night(tmp_path, "alone!", X)
    kept, report = night(tmp_path, "three", X, previous="one")
    anew, told = night(tmp_path, "anew!!", X, previous="one", prefer_previous=False)
    assert (report.lineage.followed, told.lineage.followed) == (True, None)
    assert adjusted_rand_score(alone, anew) == 1.0
    assert len(set(kept.tolist())) == len(set(one.tolist())) != len(set(alone.tolist()))
    assert 3 * report.lineage.moved < told.lineage.moved


def test_the_default_continues_clusters_of_stored_columns(tmp_path):
    """Three continuous columns stay as stored, so that level trees of the columns decide."""
    places = np.random.default_rng(99).normal(scale=2.1, size=(6, 3))

    def rows(seed):
        random = np.random.default_rng(seed)
        return places[random.integers(6, size=900)] + random.normal(scale=0.8, size=(900, 3))

    _, _ = night(tmp_path, "one", rows(3), model={"algorithm": "auto"})
    alone, _ = night(tmp_path, "alone", rows(13), model={"algorithm": "auto"})
    kept, report = night(tmp_path, "two", rows(13), "one", model={"algorithm": "auto"})
    assert (len(set(alone.tolist())), len(set(kept.tolist()))) == (3, 2)
    assert report.lineage.followed


def test_a_true_change_is_followed_at_once(tmp_path):
    night(tmp_path, "one", clear(3, 1))
    labels, report = night(tmp_path, "two", clear(4, 2), previous="one")
    assert (len(set(labels.tolist())), report.lineage.followed) == (4, False)
    assert "another answer is clearly better" in report_words(tmp_path / "two")
    labels, report = night(tmp_path, "three", clear(3, 3), previous="two")
    assert len(set(labels.tolist())) == 3
    assert [story.id for story in report.lineage.clusters if story.has_ended] == [3]


def report_words(out):
    """Return the page of a published run, which tests do not draw."""
    from distsvc.report.page import render_page
    from distsvc.run.reporting.files import read_report
    from distsvc.storage.publishing.publication import Output

    return render_page(read_report(Output(str(out))))
