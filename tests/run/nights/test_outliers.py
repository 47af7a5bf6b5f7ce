"""A warning where far more rows are outside than a job asks for."""

import pytest

from distsvc.errors import CheckFailedError
from distsvc.job.config import ChecksConfig
from distsvc.run.job import run_job
from distsvc.run.nights.comparison import outlier_notes
from tests.small_runs import small_job, three_clusters, write_table

BALL = {"algorithm": "linear-svdd"}


@pytest.mark.parametrize(
    ("share", "asked"),
    [
        (None, [{}]),
        (0.25, [{}]),
        (0.5, [{"nu": 0.5}]),
        (0.54, [{}, {"nu": 0.5}]),
        (0.5, [{"nu": None, "C": 0.1}]),
    ],
)
def test_nothing_is_said_of_few_or_of_what_was_asked_for(share, asked):
    assert outlier_notes(share, asked) == []


@pytest.mark.parametrize("asked", [[{}], [{"nu": 0.2}], [{"nu": None, "C": None}], []])
def test_more_than_a_quarter(asked):
    (note,) = outlier_notes(0.2512, asked)
    assert note.startswith("25.1% of the rows lie outside, and the job did not ask for so many: ")


@pytest.mark.usefixtures("quick_page")
def test_a_night_whose_rows_the_model_does_not_know(tmp_path):
    X, out = three_clusters(400), str(tmp_path / "first")
    first = run_job(small_job(write_table(tmp_path / "1.parquet", X), BALL, output={"path": out}))
    assert first.outliers.share <= 0.05
    night = small_job(
        write_table(tmp_path / "2.parquet", X + 30.0),
        BALL | {"mode": "assign"},
        continuity={"previous": out},
        output={"path": str(tmp_path / "second")},
    )
    with pytest.raises(
        CheckFailedError, match=r"max_outlier_share: 100\.0 % of the rows lie outside"
    ):
        run_job(night)
    off = {"max_outlier_share": {"limit": 1.0}, "max_drift": False}
    second = run_job(night.model_copy(update={"checks": ChecksConfig.model_validate(off)}))
    told = [text for text in second.warnings if "did not ask for so many" in text]
    assert (len(told), second.outliers.share) == (1, 1.0)
