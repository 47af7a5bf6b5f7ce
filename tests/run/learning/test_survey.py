"""The survey: statistics equal to NumPy's, the pilot, the sample, and extreme rows."""

from dataclasses import replace

import numpy as np
import pytest

from distsvc.errors import DataError
from distsvc.models.rows import sampling
from distsvc.run.job import run_job
from distsvc.run.learning.survey import SAMPLE, SURVEY, sampling_phase, survey_table
from distsvc.run.work import plan
from distsvc.run.work.directory import RunDirectory
from tests.published_files import read_labels
from tests.small_runs import MODELS, begin, small_job, three_clusters, write_table

N, PILOT = 900, 150
X = three_clusters(N, d=3) * [1.0, 1e6, 1e-3]


@pytest.fixture(autouse=True)
def small_pilot(monkeypatch):
    monkeypatch.setattr(plan, "PILOT_ROWS", PILOT)


def some(n_rows):
    """Return the key ranges of about 100 of `n_rows` rows."""
    return sampling.key_blocks(n_rows, 100)


def surveyed(tmp_path, X, key_ranges=some, columns=None, **sections):
    table = write_table(tmp_path / "t.parquet", X, **(columns or {}))
    steps = begin(small_job(table, {"seed": 3}, **sections), tmp_path / "run").steps
    return survey_table(steps, key_ranges), steps


def sample_of(run):
    """Return the keys and the rows of the sample, partition by partition."""
    phase = sampling_phase(run)
    names = [phase.result(number) for number in range(len(run.plan.partitions))]
    return [run.map_large(n, "keys") for n in names], [run.map_large(n, "X") for n in names]


@pytest.mark.parametrize("rows", [1000, 300, 100])
def test_sums_are_those_of_all_rows_and_the_pilot_has_the_lowest_keys(tmp_path, rows):
    survey, _ = surveyed(tmp_path, X, cluster={"partition_rows": rows, "block_rows": rows // 3})
    mean, variance = survey.sums.mean_and_variance()
    assert survey.n_rows == N
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(variance, X.var(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(survey.sums.least, X.min(axis=0))
    np.testing.assert_array_equal(survey.sums.most, X.max(axis=0))
    assert survey.sums.counts.tolist() == [N] * 3
    order = np.argsort(sampling.row_keys(3, np.arange(N)))
    np.testing.assert_array_equal(survey.pilot, X[order[:PILOT]])


@pytest.mark.parametrize("left_out", [False, True])
def test_many_partitions_send_little_more_than_one_pilot(tmp_path, left_out):
    """Unless rows are dropped, since their number is then unknown."""
    rows = three_clusters(9000, d=2)
    given = {"preprocess": {"missing": "drop"}} if left_out else {}
    found, steps = surveyed(tmp_path, rows, **given)
    m = len(found.pilot)
    keys = np.sort(sampling.row_keys(3, np.arange(9000)))[:m]
    sent = [steps.run.load(SURVEY.result(k)).arrays["keys"] for k in range(steps.n_partitions)]
    assert (np.sort(np.concatenate(sent))[:m] == keys).all()
    n_sent = sum(map(len, sent))
    assert (n_sent > 20 * m) if left_out else (n_sent < 3 * m)


def test_the_pilot_of_a_part_of_a_table_is_full(tmp_path):
    """A trial runs the phases of a job on some of its partitions."""
    table = write_table(tmp_path / "t.parquet", three_clusters(9000, d=2))
    steps = begin(small_job(table, {"seed": 3}), tmp_path / "whole").steps
    part = replace(steps.run.plan, partitions=steps.run.plan.partitions[:2])
    (tmp_path / "part").mkdir()
    run = RunDirectory(tmp_path / "part")
    run.write_plan(part)
    assert len(survey_table(replace(steps, run=run), some).pilot) == PILOT


def test_the_sample_lies_in_the_order_of_keys(tmp_path):
    _, steps = surveyed(tmp_path, X)
    keys = sampling.row_keys(3, np.arange(N))
    for (start, stop), found, rows in zip(
        steps.run.plan.partitions, *sample_of(steps.run), strict=True
    ):
        own = keys[start:stop]
        chosen = np.flatnonzero(own < np.uint64(sampling.key_threshold(N, 100)))
        chosen = chosen[np.argsort(own[chosen])]
        np.testing.assert_array_equal(found, own[chosen])
        np.testing.assert_array_equal(rows, X[start:stop][chosen])
    assert sampling_phase(steps.run) is SURVEY
    assert not steps.run.has(SAMPLE.result(0))


def test_dropped_rows_need_a_second_reading(tmp_path):
    split = np.arange(N) % 3
    survey, steps = surveyed(tmp_path, X, columns={"split": split}, input={"where": "split == 1"})
    kept = np.flatnonzero(split == 1)
    assert survey.n_rows == 300
    np.testing.assert_array_equal(survey.sums.most, X[kept].max(axis=0))
    keys = sampling.row_keys(3, kept)
    np.testing.assert_array_equal(survey.pilot, X[kept][np.argsort(keys)[:PILOT]])
    assert sampling_phase(steps.run) is SAMPLE
    found = np.concatenate(sample_of(steps.run)[0])
    assert set(found) == set(keys[keys < np.uint64(sampling.key_threshold(300, 100))])
    whole = np.concatenate([steps.run.map_large(SURVEY.result(k), "keys") for k in range(3)])
    assert set(whole) == set(keys[keys < np.uint64(sampling.key_threshold(N, 100))])


def test_a_sample_of_all_rows_needs_no_second_reading(tmp_path):
    split = {"split": np.arange(N) % 3}
    _, steps = surveyed(
        tmp_path,
        X,
        lambda n: sampling.key_blocks(n, n),
        columns=split,
        input={"where": "split == 1"},
    )
    assert sampling_phase(steps.run) is SURVEY
    assert sum(map(len, sample_of(steps.run)[0])) == 300


def test_missing_values_are_left_out_of_the_sums(tmp_path):
    holes = X.copy()
    holes[::7, 0] = holes[5, 2] = np.nan
    survey, _ = surveyed(tmp_path, holes, preprocess={"missing": "median"})
    assert survey.n_rows == N
    assert survey.sums.counts.tolist() == [N - len(holes[::7]), N, N - 1]
    np.testing.assert_allclose(
        survey.sums.mean_and_variance()[0], np.nanmean(holes, axis=0), rtol=1e-14
    )
    assert np.isnan(survey.pilot).any()


def test_too_few_rows(tmp_path):
    columns = {"split": np.arange(N)}
    with pytest.raises(DataError, match="expected at least 2 usable rows, found 1"):
        surveyed(tmp_path, X, columns=columns, input={"where": "split == 7"})


def test_a_value_whose_square_is_too_large_is_named(tmp_path):
    far = X.copy()
    far[640, 1] = 1e200
    with pytest.raises(
        DataError, match=r"column 'x1', row 640: expected a finite number .* 1e\+200"
    ):
        surveyed(tmp_path, far)


pytestmark = pytest.mark.usefixtures("quick_page")

N_FAR = 420
X_FAR = three_clusters(N_FAR)
LEVELS = MODELS["level tree"]
PLACES = [0, 137, 138, 420]


def done(folder, rows, model=LEVELS, name="t", **sections):
    """Run a job on rows, or run it again; return its report and labels."""
    table = folder / f"{name}.parquet"
    if not table.exists():
        write_table(table, rows)
    output = {"path": str(folder / name)} | sections.pop("output", {})
    return run_job(small_job(table, model, output=output, **sections)), read_labels(folder / name)


def with_far_rows(value=1e9):
    """Return the rows with four extreme ones, each extreme in one column or in both."""
    far = np.array([[value, 9.0], [9.0, -value], [value, value], [8.0, value]])
    return np.insert(X_FAR, PLACES, far, axis=0)


def is_far(n=N_FAR + 4):
    return np.isin(np.arange(n), np.array(PLACES) + np.arange(4))


def notes(report):
    return [text for text in report.warnings if "extreme rows" in text]


@pytest.mark.parametrize("name", ["level tree", "boundary", "hyperplanes", "sampled"])
def test_extreme_rows_do_not_change_the_labels_of_others(tmp_path, name):
    usual, clean = done(tmp_path, X_FAR, MODELS[name], "clean")
    report, found = done(tmp_path, with_far_rows(), MODELS[name])
    phases = [{phase.name for phase in one.phases} for one in (report, usual)]
    assert phases[0] - phases[1] == {"survey-again"}
    others = found.filter(~is_far())
    for column in set(clean.column_names) - {"row"}:
        assert others[column].equals(clean[column]), column
    assert found.num_rows == report.input.n_rows == N_FAR + 4
    assert notes(report)


def test_extreme_rows_are_outliers_and_named(tmp_path):
    report, found = done(tmp_path, with_far_rows(), output={"reasons": 1})
    far = found.filter(is_far())
    assert far["outlier"].to_pylist() == [True] * 4
    assert max(far["score"].to_pylist()) < min(found.filter(~is_far())["score"].to_pylist())
    assert {row.row for row in report.reasons.farthest[:4]} == set(np.flatnonzero(is_far()))
    assert notes(report) == [
        "extreme rows: row 0 (x0 = 1e+09), row 138 (x1 = -1e+09), row 140 (x1 = 1e+09), "
        "row 423 (x1 = 1e+09); ignored while learning, and labelled like any other"
    ]


def test_extreme_rows_in_a_table_with_dropped_rows(tmp_path):
    given = {"preprocess": {"missing": "drop"}}
    holes = np.insert(X_FAR, [3, 300], np.nan, axis=0)
    _, clean = done(tmp_path, holes, name="clean", **given)
    _, found = done(tmp_path, np.insert(holes, 100, 1e9, axis=0), **given)
    assert found.filter(np.array(found["row"]) != 100)["score"].equals(clean["score"])
