"""A folder and a bucket have the same methods; a bucket's commit is safe if answers are lost."""

import errno
import json
import os
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from distsvc.errors import InputNotFoundError, JobFileError, OutputPermissionError, TemporaryError
from distsvc.storage.places import lease, remote
from distsvc.storage.places import store as stores
from distsvc.storage.places.arrays import write_content
from distsvc.storage.places.folder import ChangedError
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.publication import Output, collect
from tests.s3_server import BUCKET, Trouble, content, keys, reached, s3_server, troubled
from tests.storage.written_runs import digest_of, errors_of_lock, name_of, work_of, write_run

pytest.importorskip("obstore")
pytest.importorskip("moto")


@pytest.fixture(scope="module")
def store():
    with s3_server() as url:
        yield url


@pytest.fixture
def prefix(store, request):
    return request.node.name.replace("[", "-").replace("]", "")


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path, prefix):
    return store_of(tmp_path if request.param == "folder" else f"s3://{BUCKET}/{prefix}")


def write(place, name, text, **options):
    with place.created(name, **options) as path:
        write_content(path, text)


def test_created_files_exist(place):
    assert not place.has("a/b.txt")
    assert not place.local("a/b.txt").exists()
    write(place, "a/b.txt", "one")
    write(place.below("a"), "c.txt", "three", again=False)
    for found in (place, store_of(place.address)):
        assert found.has("a/b.txt")
        assert found.local("a/b.txt").read_text() == "one"
        assert found.below("a").local("c.txt").read_text() == "three"
        assert found.sizes() == {"a/b.txt": 3, "a/c.txt": 5}
        assert found.sizes("a") == found.sizes()
        assert found.sizes("none") == {}
        assert found.folders() == ["a"]
        assert found.folders("a") == found.folders("none") == []


def test_a_file_whose_writing_fails_does_not_exist(place):
    with pytest.raises(ValueError, match="inside"), place.created("a.txt"):
        raise ValueError("inside")
    assert place.sizes() == {}


def test_removed_files_do_not_exist(place):
    for name in ("a/1", "a/2", "a/b/3", "c"):
        write(place, name, name)
    assert place.remove("c")
    assert not place.remove("c")
    place.clear("a", {"a/2"})
    assert place.sizes() == {"a/2": 3}
    assert not place.has("a/1")
    assert not place.local("a/1").exists()


TROUBLE = [errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ESTALE]


@pytest.mark.parametrize("number", TROUBLE, ids=errno.errorcode.get)
def test_a_disk_that_does_not_answer_is_no_missing_file(tmp_path, monkeypatch, number):
    place = store_of(tmp_path)
    write(place, "a/b.txt", "one")

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", fail)
        for look in (place.sizes, place.folders, lambda: place.clear("a", {"a/c"})):
            with pytest.raises(TemporaryError, match=os.strerror(number)):
                look()
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", fail)
        for look in (lambda: place.has("a/b.txt"), lambda: place.remove("a/b.txt")):
            with pytest.raises(TemporaryError, match=os.strerror(number)):
                look()
    assert place.sizes() == {"a/b.txt": 3}


def test_a_swap_needs_the_version_that_is_there(place):
    mark = place.swap("m", b"first", None)
    with pytest.raises(ChangedError):
        place.swap("m", b"second", None)
    later = place.swap("m", b"third", mark)
    with pytest.raises(ChangedError):
        place.swap("m", b"fourth", mark)
    assert place.current("m") == (b"third", later)
    assert not place.remove("m", mark)
    assert place.current("m")[0] == b"third"
    assert place.remove("m", later)
    assert place.current("m") is None or not json.loads(place.current("m")[0])


def test_large_files_are_whole(place):
    content = os.urandom(20_000_000)
    with place.created("large", again=False) as path:
        path.write_bytes(content)
    assert store_of(place.address).local("large").read_bytes() == content


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://KEY:PL4NTED@bucket/out", "expected a URL without user, password and query"),
        ("s3://", "expected s3://bucket/prefix, found 's3://'"),
        ("s3://bucket/out?versionId=3", "expected a URL without user, password and query"),
        ("s3://bucket/out?", "expected s3://bucket/prefix"),
    ],
)
def test_an_unsupported_url_of_a_store(url, message):
    with pytest.raises(JobFileError, match=message) as error:
        store_of(url)
    assert "PL4NTED" not in str(error.value)


def test_a_bucket_that_is_not_there(store):
    place = store_of("s3://no-such-bucket/out")
    assert place.current("m") is None
    with pytest.raises(OutputPermissionError, match=r"^s3://no-such-bucket/out/m does not exist$"):
        place.put("m", b"")
    with pytest.raises(InputNotFoundError, match="no run is published"):
        Output("s3://no-such-bucket/out").file("model.json")


def test_without_credentials(store, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    stores._opened.cache_clear()
    with pytest.raises(OutputPermissionError, match="no credentials; give credentials"):
        store_of(f"s3://{BUCKET}/out")
    stores._opened.cache_clear()


def test_a_store_that_is_away(store, monkeypatch):
    monkeypatch.setattr(remote, "STORE", replace(remote.STORE, output_retries=1))
    with reached("http://127.0.0.1:9"):
        place = store_of(f"s3://{BUCKET}/out")
        with pytest.raises(TemporaryError, match=r"^can't reach s3://bucket/out/m: "):
            place.put("m", b"")


def test_requests_are_repeated(store, prefix):
    trouble = Trouble(seed=4, lost=0.1, dropped=0.1, busy=0.1, methods=("PUT", "GET", "HEAD"))
    with troubled(store, trouble) as url, reached(url):
        place = store_of(f"s3://{BUCKET}/{prefix}")
        for k in range(10):
            place.put(f"{k}", b"%d" % k)
            assert place.local(f"{k}").read_bytes() == b"%d" % k
            assert place.has(f"{k}")
    assert all(trouble.counts.values())


def test_a_commit_succeeds_if_its_answer_is_lost(store, prefix):
    """The second request is refused, because the first one succeeded."""
    place, mark = store_of(f"s3://{BUCKET}/{prefix}"), None
    trouble = Trouble(seed=1, lost=0.5)
    with troubled(store, trouble) as url, reached(url):
        place = store_of(place.address)
        for k in range(6):
            mark = place.swap("m", b"%d" % k, mark)
            assert place.current("m") == (b"%d" % k, mark)
    assert trouble.counts["lost"] > 1


@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_one_of_several_writers_wins(store, prefix, lost):
    with troubled(store, Trouble(seed=3, lost=lost)) as url, reached(url):
        for race in range(3):
            won, writers = [], 4
            start = threading.Barrier(writers)

            def write(number, race=race, won=won, start=start):
                place = store_of(f"s3://{BUCKET}/{prefix}")
                start.wait()
                with suppress(ChangedError):
                    place.swap(f"m{race}", b"%d" % number, None)
                    won.append(b"%d" % number)

            threads = [threading.Thread(target=write, args=(k,)) for k in range(writers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert won == [content(f"{prefix}/m{race}")]


def publish(url, mark):
    output = Output(url)
    with output.locked(digest_of(mark), True), work_of(output, digest_of(mark)) as work:
        output.check_free(digest_of(mark), overwrite=True)
        output.publish(write_run(output, name_of(work), mark))


def seen(prefix):
    """Return the mark of the published run; check that all files have it."""
    manifest = json.loads(content(f"{prefix}/manifest.json"))
    marks = {content(f"{prefix}/{file['file']}").split()[0] for file in manifest["files"]}
    assert len(marks) == 1
    return marks.pop().decode()


def test_runs_are_published_one_after_the_other(store, prefix):
    url = f"s3://{BUCKET}/{prefix}"
    for mark in ("a", "b", "c"):
        publish(url, mark)
        assert seen(prefix) == mark
    assert Output(url).file("model.json").read_text() == "c model.json"
    assert len(collect(url)) == 5
    files = json.loads(content(f"{prefix}/manifest.json"))["files"]
    listed = [file[key] for file in files for key in ("file", "stored")]
    beside = ["manifest.json", "_SUCCESS", "report.html", "report.json", ".runs/holder.json"]
    assert keys(f"{prefix}/") == sorted([*listed, *beside])


def test_a_run_published_without_the_lease_is_not_replaced(place):
    output = Output(place.address)
    with output.locked(), work_of(output, digest_of("a")) as work:
        output.check_free(digest_of("a"), overwrite=True)
        output.store.put("manifest.json", b"{}")
        with pytest.raises(TemporaryError, match=r"another run was published in .* meantime"):
            output.publish(write_run(output, name_of(work), "a"))
    assert place.current("manifest.json")[0] == b"{}"


@pytest.fixture(params=[{"host": "elsewhere", "boot": "b"}, {"namespace": "another container"}])
def elsewhere(request, monkeypatch):
    """Let records of this process look like those of another machine or container."""
    who = lease.who()
    monkeypatch.setattr(lease, "TIMES", lease.LeaseTimes(beat=0.05, silence=0.5))

    def moved():
        monkeypatch.setattr(lease, "who", lambda: who | request.param)

    return moved


def test_a_holder_on_another_machine_is_respected_while_it_lives(place, elsewhere, monkeypatch):
    """On another machine there is no lock, but the record is renewed."""
    if hasattr(place, "root"):
        pytest.skip("in one process, the lock of a folder is found first")
    with Output(place.address).locked("job"):
        elsewhere()
        [error] = errors_of_lock(place.address)
        assert type(error) is TemporaryError
        assert "another run is writing to" in str(error)
    assert errors_of_lock(place.address) == []


def test_nothing_is_collected_of_a_run_that_lives_elsewhere(place, elsewhere, monkeypatch):
    if hasattr(place, "root"):
        pytest.skip("in one process, the lock of a folder is found first")
    output = Output(place.address)
    with output.locked("job"), work_of(output, digest_of("a")) as work:
        work.put("plan.json", b"{}")
        elsewhere()
        for dry_run in (True, False):
            with pytest.raises(TemporaryError, match="another run is writing to"):
                collect(place.address, dry_run)
        assert work.has("plan.json")


def test_a_holder_that_was_killed_elsewhere_is_waited_for(place, elsewhere):
    dead = lease.who() | {"host": "elsewhere", "boot": "b", "since": "then", "beat": 3}
    place.put(".runs/holder.json", json.dumps(dead | {"doing": {"run": "r"}}).encode())
    with Output(place.address).locked("job") as before:
        assert before.doing == {"run": "r"}


@pytest.mark.parametrize("process", [{"process": 2**22 + 1}, {}], ids=["nobody's", "another's"])
def test_a_holder_that_was_killed_here_is_not_waited_for(place, process):
    dead = lease.who() | process | {"started": "7", "since": "then", "beat": 3}
    place.put(".runs/holder.json", json.dumps(dead).encode())
    with Output(place.address).locked("job") as before:
        assert before.process == dead["process"]


def test_a_holder_without_its_lease_does_not_publish(place, elsewhere, monkeypatch):
    """Such as a process that was suspended and continues later."""
    output = Output(place.address)
    with output.locked(), work_of(output, digest_of("a")) as work:
        output.check_free(digest_of("a"), overwrite=True)
        manifest = write_run(output, name_of(work), "a")
        place.put(".runs/holder.json", b'{"host": "elsewhere"}')
        output._lease.renew({})
        with pytest.raises(TemporaryError, match=r"another run took over .*; start"):
            output.publish(manifest)
        assert place.sizes("labels") == {}
        kept = place.sizes(".runs/files")
        output.discard(name_of(work))
        assert place.sizes(".runs/files") == kept != {}, "its successor needs them"
    assert place.current("manifest.json") is None


def test_signs_of_life_tell_how_far_a_run_is(place, elsewhere):
    told = threading.Event()

    def doing():
        told.set()
        return {"run": "r", "done": 3}

    with Output(place.address).locked("job", doing=doing):
        assert told.wait(10)
        for _ in range(200):
            holder = lease.read_holder(place.below(".runs"))
            if holder.doing:
                break
            told.clear()
            told.wait(1)
        assert holder.doing == {"run": "r", "done": 3}
        assert holder.beat > 0
