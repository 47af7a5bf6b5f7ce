import bz2
import gzip

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from distsvc import LinearOneClassSVM, LinearSVDD
from distsvc.errors import DataError, JobFileError
from distsvc.job.config import InputConfig
from distsvc.run.job import run_job
from distsvc.storage.rows.blocks import Span
from distsvc.storage.tables.opening import fingerprint, open_table, read_blocks
from distsvc.storage.tables.sources import source_of
from tests.small_runs import small_job

pytestmark = pytest.mark.usefixtures("quick_page")

TEXT = b"""1 1:0.5 3:-2
-1
# a comment

+1 2:1e1 # another
"""
OPENERS = {"": open, ".gz": gzip.open, ".bz2": bz2.open}


def write(path, text=TEXT):
    opener = OPENERS.get(path.suffix, open)
    with opener(path, "wb") as stream:
        stream.write(text)
    return path


def table_at(path, staging, **given):
    return open_table(InputConfig(path=str(path), **given), staging)


@pytest.mark.parametrize("name", ["a.svm", "a.libsvm", "a.svmlight.gz", "a.svm.bz2"])
def test_rows_are_read(tmp_path, name):
    table = table_at(write(tmp_path / name), tmp_path / "staging", classes="label")
    assert table.columns == ("f1", "f2", "f3")
    assert table.layout.format == "svmlight"
    assert table.n_rows == 3
    [block] = read_blocks(table, Span(0, 3, 10, with_labels=True))
    np.testing.assert_array_equal(block.X, [[0.5, 0, -2.0], [0, 0, 0], [0, 10.0, 0]])
    assert block.labels.to_pylist() == [1.0, -1.0, 1.0]
    assert source_of(table).sparse_rows(table).nnz == 3
    assert len(fingerprint(table)) == 64


def test_indices_may_start_at_0(tmp_path):
    table = table_at(write(tmp_path / "a.svm", TEXT + b"1 0:7 3:1\n"), tmp_path / "staging")
    assert table.columns == ("f0", "f1", "f2", "f3")
    [block] = read_blocks(table, Span(0, 4, 10))
    np.testing.assert_array_equal(block.X[[0, 3]], [[0, 0.5, 0, -2.0], [7.0, 0, 0, 1.0]])
    chosen = table_at(tmp_path / "a.svm", tmp_path / "staging", columns=("f3",))
    assert next(read_blocks(chosen, Span(0, 4, 10))).X[:, 0].tolist() == [-2.0, 0.0, 0.0, 1.0]


def test_blocks_are_the_same_rows(tmp_path):
    X = sparse.random(500, 12, 0.2, format="csr", random_state=0)
    with open(tmp_path / "x.svm", "wb") as stream:
        dump_svmlight_file(X, np.zeros(500), stream, zero_based=False)
    table = table_at(tmp_path / "x.svm", tmp_path / "staging", columns=("f3", "f1"))
    found = list(read_blocks(table, Span(100, 400, 77)))
    np.testing.assert_allclose(np.concatenate([b.X for b in found]), X.toarray()[100:400, [2, 0]])
    assert np.concatenate([b.rows for b in found]).tolist() == list(range(100, 400))
    assert source_of(table).sparse_rows(table) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1 1:1\n1 -2:3\n", r"a\.svm, line 2: expected a label and .* index -2"),
        (b"1 1:1\n# x\n1 3:1 2:1\n", r"a\.svm, line 3: .* with ascending indices"),
        (b"1 3:x\n", r"a\.svm, line 1: expected a label and index:value pairs .*x"),
        (b"1 3\n", r"a\.svm, line 1: expected a label and index:value pairs"),
        (b"1 1:1\n" * 5000 + b"one 3:1\n", r"a\.svm, line 5001: .*one"),
        (b"", r"a\.svm has no rows"),
    ],
)
def test_text_that_is_not_svmlight(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        table_at(write(tmp_path / "a.svm", text), tmp_path / "staging")


def test_a_damaged_archive_is_named(tmp_path):
    (tmp_path / "a.svm.gz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"a\.svm\.gz"):
        table_at(tmp_path / "a.svm.gz", tmp_path / "staging")


def test_keys_that_svmlight_text_does_not_support(tmp_path):
    path = write(tmp_path / "a.svm")
    words = r"input\.id: not supported for svmlight text, found 'row'; remove the key"
    with pytest.raises(JobFileError, match=words):
        table_at(path, tmp_path / "staging", id="row")
    with pytest.raises(JobFileError, match=r"input\.where: not supported for svmlight text"):
        table_at(path, tmp_path / "staging", where="f1 > 0")
    with pytest.raises(JobFileError, match="in 'label', found 'y'"):
        table_at(path, tmp_path / "staging", classes="y")
    with pytest.raises(JobFileError, match=r"input\.columns: expected features .* found 'label'"):
        table_at(path, tmp_path / "staging", columns=("f1", "label"))


@pytest.mark.parametrize("algorithm", ["linear-one-class", "linear-svdd"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nan", r"column 'f2' has 1 missing value .*first at row 3\)"),
        ("inf", "column 'f2', row 3: expected a finite number.*inf"),
    ],
)
def test_values_that_are_no_numbers_are_named_by_the_job(tmp_path, algorithm, value, message):
    text = TEXT + f"1 2:{value}\n".encode()
    with pytest.raises(DataError, match=message):
        job(write(tmp_path / "a.svm", text), algorithm)


def job(path, algorithm, **model):
    return run_job(small_job(path, {"algorithm": algorithm} | model, preprocess={"scale": "none"}))


@pytest.mark.parametrize(
    ("make", "algorithm"), [(LinearOneClassSVM, "linear-one-class"), (LinearSVDD, "linear-svdd")]
)
def test_a_job_on_sparse_rows_gives_the_answer_of_the_estimator(tmp_path, make, algorithm):
    dense = sparse.random(800, 30, 0.2, random_state=0).toarray().round(3)
    dense[7], dense[:, 4] = 0.0, 0.0
    X = sparse.csr_matrix(dense)
    with open(tmp_path / "x.svm", "wb") as stream:
        dump_svmlight_file(X, np.zeros(800), stream, zero_based=False)
    report = job(tmp_path / "x.svm", algorithm, nu=0.1, tol=1e-8)
    peer = make(0.1, tol=1e-8).fit(X)
    assert report.model.fitted["objective"] == pytest.approx(peer.objective_, rel=1e-9)
    assert report.outliers.rows == pytest.approx((peer.predict(X) < 0).sum(), abs=31)
    assert "constant columns, which do not change the result: f5" in report.warnings
