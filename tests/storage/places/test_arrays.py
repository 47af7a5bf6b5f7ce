"""Small files: whole or absent, the same bytes every time, and nothing executable in them."""

import builtins
import errno
import gc
import io
import json
import os
import re
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from distsvc.errors import DataError, TemporaryError
from distsvc.storage.places.arrays import (
    checksum,
    json_bytes,
    map_array,
    read_arrays,
    read_json,
    release_pages,
    sealed,
    unsealed,
    write_array,
    write_arrays,
    write_json,
    write_whole,
)

ARRAYS = {
    "X": np.arange(12, dtype=np.float32).reshape(4, 3),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(4, 3)),
    "keys": np.array([0, 2**64 - 1], np.uint64),
    "empty": np.zeros((0, 3), np.float32),
    "one": np.array(7),
    "text": np.array("größer"),
    "flags": np.array([True, False]),
}


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    np.testing.assert_array_equal(a, b)


def test_write_whole_writes_and_replaces(tmp_path):
    path = tmp_path / "file"
    for content in (b"first", b"second"):
        write_whole(path, lambda stream, content=content: stream.write(content))
        assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [(OSError("disk full"), TemporaryError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_writer_that_raises_leaves_what_was_there(tmp_path, error, expected):
    def write(stream):
        stream.write(b"half")
        raise error

    with pytest.raises(expected):
        write_whole(tmp_path / "new", write)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(expected):
        write_whole(tmp_path / "old", write)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_arrays_come_back(tmp_path):
    write_arrays(tmp_path / "a.npz", ARRAYS)
    found = read_arrays(tmp_path / "a.npz")
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        same(found[name], array)
    np.savez(tmp_path / "b.npz", **ARRAYS)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize("name", ["X", "fortran", "keys", "empty", "flags"])
def test_map_array_keeps_values_and_order(tmp_path, name):
    write_array(tmp_path / "a.npy", ARRAYS[name])
    found = map_array(tmp_path / "a.npy")
    same(np.asarray(found), ARRAYS[name])
    assert found.flags.f_contiguous == ARRAYS[name].flags.f_contiguous


class Full(io.BytesIO):
    """A file on a disk that fails after some bytes."""

    def write(self, data):
        if self.tell() > 100:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(data)


def test_a_write_that_fails_leaves_no_archive_open(tmp_path, monkeypatch):
    left = []
    monkeypatch.setattr("sys.unraisablehook", left.append)
    monkeypatch.setattr(builtins, "open", lambda *_, **__: Full())
    with pytest.raises(TemporaryError, match="Input/output error"):
        write_arrays(tmp_path / "a.npz", ARRAYS)
    gc.collect()
    assert left == []


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_released_pages_leave_the_process(tmp_path):
    def resident_mb():
        text = Path("/proc/self/smaps_rollup").read_text()
        return int(re.search(r"^Rss: +(\d+) kB", text, re.M)[1]) / 1024

    write_array(tmp_path / "a.npy", np.ones((8_000_000, 1)))
    found = map_array(tmp_path / "a.npy")
    total, used = found.sum(), resident_mb()
    release_pages(found)
    assert resident_mb() < used - 50.0
    assert found.sum() == total
    release_pages(np.ones(3))  # an array in memory stays


@pytest.mark.parametrize("kept", [0, 10, 100, -1, None])
def test_a_truncated_or_missing_npz(tmp_path, kept):
    path = tmp_path / "a.npz"
    write_arrays(path, ARRAYS)
    content = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(content[:kept])
    with pytest.raises(DataError, match=r"a\.npz can't be read"):
        read_arrays(path)


def test_a_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, {"X": np.zeros(1000)})
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="CRC"):
        read_arrays(path)


@pytest.mark.parametrize("place", ["size", "offset"])
def test_a_place_before_the_file_is_damage(tmp_path, place):
    """The operating system raises "invalid argument"."""
    path = tmp_path / "a.npz"
    write_arrays(path, {"a": np.arange(50), "b": np.ones(3)})
    content = bytearray(path.read_bytes())
    end = content.rindex(b"PK\5\6") + {"size": 12, "offset": 16}[place]  # of the central directory
    content[end : end + 4] = (2**31).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npz can't be read: "):
        read_arrays(path)


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        *[((2**40,), bytes(8)), ((2,), bytes(8)), ((2**60,), bytes(8))],
        *[((2**40, 2**40), bytes(8)), ((2,), bytes(24))],
    ],
)
def test_a_header_that_says_another_size(tmp_path, shape, data):
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    put_member(tmp_path / "a.npz", "X.npy", stream.getvalue() + data)
    with pytest.raises(DataError, match=r"a\.npz can't be read"):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize("change", [-8, 4])
def test_a_mapped_file_of_another_length(tmp_path, change):
    path = tmp_path / "X.npy"
    write_array(path, np.arange(1000))
    path.write_bytes(path.read_bytes()[: 8128 + change] + b"more"[: max(change, 0)])
    with pytest.raises(DataError, match=r"X\.npy can't be read: .*(size|follow)"):
        map_array(path)


def put_member(path, name, content):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, content)


def with_another_member(path):
    write_arrays(path, {"X": np.zeros(3)})
    put_member(path, "y.txt", b"")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: put_member(path, "X.npy", b"no array at all"), r"a\.npz can't be read"),
        (with_another_member, r"a\.npz can't be read"),
        (lambda path: np.savez(path, X=np.array([{}, []], object)), "allow_pickle"),
        (
            lambda path: np.savez_compressed(path, X=np.zeros(2**20)),
            r"a\.npz can't be read: its member 'X.npy' is compressed",
        ),
    ],
    ids=["no array", "a member that no archive of ours has", "Python objects", "compressed"],
)
def test_archives_that_are_not_read(tmp_path, write, message):
    write(tmp_path / "a.npz")
    with pytest.raises(DataError, match=message):
        read_arrays(tmp_path / "a.npz")


def test_python_objects_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_arrays(tmp_path / "a.npz", {"X": np.array([{}, []], object)})
    assert list(tmp_path.iterdir()) == []


def test_json_comes_back(tmp_path):
    write_json(tmp_path / "a.json", {"b": np.int64(3), "a": np.array([1.5, 2.5]), "t": "größer"})
    assert read_json(tmp_path / "a.json") == {"b": 3, "a": [1.5, 2.5], "t": "größer"}
    assert list(json.loads((tmp_path / "a.json").read_text())) == ["b", "a", "t"]


@pytest.mark.parametrize("content", [{"a": float("nan")}, {"a": object()}, {"a": {1, 2}}])
def test_json_that_can_not_be_written(tmp_path, content):
    with pytest.raises((ValueError, TypeError)):
        write_json(tmp_path / "a.json", content)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "."),
        (b"", "."),
        (b'{"a": 1', "."),
        (b"\xff", "."),
        (b'{"a": NaN}', "expected value at line 1 column 7"),
        (b'{"a": -Infinity}', "invalid number"),
        (b'{"a": "\\ud800"}', "."),
        (b"[" * 10**5 + b"]" * 10**5, "recursion limit"),
        (b"1" * 5000, "."),
        ('{"a": "\u00df"}'.encode("latin-1"), "."),
        ('{"a": 1}'.encode("utf-16"), "."),
    ],
)
def test_missing_or_ambiguous_json_is_refused(tmp_path, content, why):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.json can't be read: .*{why}"):
        read_json(tmp_path / "a.json")


def test_json_is_not_read_beyond_a_size(tmp_path):
    write_json(tmp_path / "a.json", list(range(100)))
    size = (tmp_path / "a.json").stat().st_size
    assert read_json(tmp_path / "a.json", size) == list(range(100))
    with pytest.raises(DataError, match=rf"it has more than {size - 1} bytes"):
        read_json(tmp_path / "a.json", size - 1)


@pytest.mark.parametrize("read", [read_json, read_arrays, map_array])
def test_a_pipe_does_not_block(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe can't be read: it is not a file"):
        read(tmp_path / "pipe")


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_the_checksum_of_an_array_is_its_files(tmp_path, array):
    path = tmp_path / "a.npy"
    assert write_array(path, array) == checksum(path) == zlib.crc32(path.read_bytes())


SEALED = {"seed": 0, "share": 0.1, "names": ["ä", None], "inner": {"n": 2**70, "e": 1e-300}}


def test_sealed_json_comes_back():
    assert unsealed(sealed(SEALED), "a.json") == SEALED
    assert list(json.loads(sealed(SEALED))) == [*SEALED, "crc32"]


def test_every_flipped_bit_in_sealed_json_is_detected():
    """A flipped bit is detected, or the JSON means the same."""
    written = sealed(SEALED)
    for place in range(len(written)):
        for bit in range(8):
            other = bytearray(written)
            other[place] ^= 1 << bit
            with suppress(DataError):
                assert unsealed(bytes(other), "a.json") == SEALED


def test_json_without_a_checksum_is_damaged():
    written = json_bytes(SEALED)
    with pytest.raises(DataError, match=r"a\.json can't be read: its checksum is wrong"):
        unsealed(written, "a.json")
    with pytest.raises(DataError, match="expected an object, found list"):
        unsealed(b"[1]", "a.json")


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ESTALE])
def test_a_disk_that_does_not_answer_damages_nothing(tmp_path, monkeypatch, number):
    write_arrays(tmp_path / "a.npz", ARRAYS)

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(builtins, "open", fail)
    for read in (read_arrays, read_json, map_array):
        with pytest.raises(TemporaryError, match=os.strerror(number)):
            read(tmp_path / "a.npz")
