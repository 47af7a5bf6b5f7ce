"""Some of the mutated job files of `tests.fuzz.job_files`; thousands are for the command line."""

from tests.fuzz import job_files


def test_mutated_job_files_end_in_one_line(tmp_path):
    assert job_files.failures(tmp_path, range(300), seed=0, run=False) == []


def test_mutated_jobs_end_in_one_line_or_a_result(tmp_path):
    assert job_files.failures(tmp_path, range(13), seed=1, run=True) == []
