"""A few runs whose own files are damaged, or can't be reached; the campaign does all."""

import pytest
from chaos.own_files import SmallLab, every_look, quick, spoiled, unreachable

from tests.s3_server import BUCKET, s3_server

SEEDS = range(4)


@pytest.fixture
def lab(tmp_path):
    with quick():
        yield SmallLab(tmp_path.resolve())


def test_runs_whose_files_were_damaged_end_as_others(lab):
    outcomes = [spoiled(lab, seed, "sampled") for seed in SEEDS]
    assert [one for one in outcomes if one["problems"]] == []


def test_runs_whose_files_can_not_be_reached_keep_their_work(lab):
    outcomes = list(every_look(lab, "sampled", seed=0, step=399))
    assert [one for one in outcomes if one["problems"]] == []
    assert {75} <= {one["codes"][0] for one in outcomes} <= {0, 75}
    assert {one["goes_on"] for one in outcomes} == {True, False}


def test_runs_whose_objects_can_not_be_reached_keep_their_work(tmp_path):
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with quick(), s3_server():
        lab = SmallLab(tmp_path.resolve(), f"s3://{BUCKET}")
        outcomes = list(every_look(lab, "sampled", seed=0, step=999))
    assert [one for one in outcomes if one["problems"]] == []
    assert {75} <= {one["codes"][0] for one in outcomes} <= {0, 75}


def test_a_look_that_fails_is_seen(lab):
    """What would be wrong is told: another code, and work that is gone."""
    lab.whole("sampled")
    assert lab.ends("sampled", 70, "a bug", 1) == ["exit 70: a bug"]
    assert lab.ends("sampled", 75, "away", 0) == ["no way out: 75 away"]
    lab.clear()
    assert lab.ends("sampled", 0, "", 0) == ["nothing is published"]


def test_another_answer_is_seen(lab):
    lab.whole("sampled")
    lab.clear()
    lab.start(lab.job("boundary"))
    assert any("another answer" in one for one in lab.ends("sampled", 0, "", 0))


def test_workers_that_can_not_reach_a_file_keep_the_work(lab):
    outcome = unreachable(lab, "sampled", None, 20, "EIO", lasting=True, workers=2)
    assert (outcome["codes"], outcome["problems"]) == ([75], [])
    assert "Input/output error" in outcome["words"]
