from benchmarks.harness.rows import write_csv
from benchmarks.papers.hyperplanes import with_other_sets


def test_sets_that_are_not_run_keep_their_rows_and_their_day(tmp_path):
    path = tmp_path / "mdh_table.csv"
    fresh = [{"set": "ring", "nmi": 0.5}]
    assert with_other_sets(path, fresh) == fresh
    write_csv(path, [{"set": "churn", "nmi": 0.25}, {"set": "ring", "nmi": 0.75}], {"day": "1"})
    rows = with_other_sets(path, fresh)
    assert rows == [{"set": "churn", "nmi": 0.25, "day": 1}, {"set": "ring", "nmi": 0.5}]
    write_csv(path, rows, {"day": "2"})
    assert path.read_text() == "set,nmi,day\nchurn,0.25,1\nring,0.5,2\n"
