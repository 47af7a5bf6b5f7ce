"""Messages name a location without secrets, and its errors have the right class."""

import errno

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError, JobFileError, TemporaryError
from distsvc.storage.places.location import Location
from tests.small_tables import everything, opened, sample


@pytest.mark.parametrize(
    "url", ["gs://b/x", "delta://abfss://b/x", "sftp://h/x", "zip://a.csv::file:///b.zip"]
)
def test_a_store_that_is_not_supported(url):
    with pytest.raises(JobFileError, match=r"is not supported; expected a path, or .* s3://, http"):
        Location.of(url)


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (PermissionError(errno.EACCES, "no"), DataError, r"no permission to read .*t.parquet"),
        (ConnectionResetError(), TemporaryError, r"can't reach .*t.parquet"),
        (OSError(errno.EIO, "disk"), TemporaryError, r"can't reach .*t.parquet"),
    ],
)
def test_a_file_that_can_not_be_reached(tmp_path, monkeypatch, error, expected, message):
    pq.write_table(sample(5), tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)

    def fail(*_args, **_kwargs):
        raise error

    monkeypatch.setattr(pa, "OSFile", fail)
    with pytest.raises(expected, match=message):
        opened(tmp_path / "t.parquet", tmp_path)
    with pytest.raises(expected, match=message):
        everything(table)


def test_a_place_is_found_again_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("x\n")
    monkeypatch.chdir(tmp_path)
    place = Location.of("a.csv")
    assert place.is_local
    assert (place.path, place.address) == (str(tmp_path / "a.csv"), str(tmp_path / "a.csv"))
    assert place.shown == "a.csv"
    assert place.info()["size"] == 2
    assert Location.of("memory://some/a.csv").address == "memory://some/a.csv"
    assert Location.of("memory://some/a.csv").info() is None


def test_a_place_in_a_folder():
    folder = Location.of("memory://some/data/")
    assert folder.path == "/some/data"
    assert folder.join("b/c.csv") == folder.at("/some/data/b/c.csv")
    assert folder.join("b/c.csv").shown == "/some/data/b/c.csv"


@pytest.mark.parametrize(
    ("path", "expected"), [("a.CSV", True), ("a.csv.gz", False), ("a?.csv", True)]
)
def test_a_name_ends_in_a_suffix(path, expected):
    fs = Location.of("memory://").fs
    assert Location(fs, path, path).is_named([".csv"]) is expected
    assert Location(fs, path, path).is_named([]) is False
