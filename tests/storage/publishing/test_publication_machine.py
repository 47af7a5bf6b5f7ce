"""Any history of writers, crashes and readers: what is published is one whole result."""

import hashlib
import json
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from distsvc.errors import DistsvcError, TemporaryError
from distsvc.storage.places import lease, remote
from distsvc.storage.publishing.publication import Output, collect
from tests.s3_server import BUCKET, content, keys, s3_server
from tests.storage.written_runs import (
    Crash,
    crashing,
    digest_of,
    name_of,
    run,
    seen,
    work_of,
    write_run,
)

MARKS = st.sampled_from("abc")


class Publication(RuleBasedStateMachine):
    """One writer at a time gets further than the lock, any step can be the last, readers follow.

    A reader that has read a manifest finds its files until two others were published since.
    """

    @initialize()
    def start(self):
        self.stack = ExitStack()
        self.patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        self.out = self.new_output()
        self.mark, self.writing, self.reading, self.since = None, None, None, 0

    def new_output(self):
        return str(Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "out")

    def seen(self):
        return seen(self.out)

    def content(self, name):
        return Path(self.out, name).read_bytes()

    def run(self, mark):
        return run(self.out, mark)

    def begins(self):
        """A writer begins that takes its time."""

    def ends(self):
        """It has ended."""

    def failing(self, after, once):
        error = Crash() if not once else OSError(28, "No space left on device")
        return crashing(self.patch, 10_000 if after is None else after, error, once)

    def teardown(self):
        if self.writing is not None:
            self.writing[0].close()
        self.stack.close()

    def changed(self, mark):
        self.since += mark != self.mark
        self.mark = mark

    @precondition(lambda self: self.writing is None)
    @rule(mark=MARKS, after=st.none() | st.integers(0, 90), once=st.booleans())
    def publish(self, mark, after, once):
        with self.failing(after, once) as changes, suppress(Crash, OSError, DistsvcError):
            self.run(mark)
        whole = after is None or len(changes) <= after
        found = self.seen()
        assert found == mark if whole else found in (mark, self.mark)
        self.since += found != self.mark
        self.mark = found

    @precondition(lambda self: self.writing is None)
    @rule(mark=MARKS)
    def begin(self, mark):
        """A writer that takes its time."""
        output, stack = Output(self.out), ExitStack()
        if output.holds(digest_of(mark), digest_of("i")):
            return
        self.begins()
        stack.enter_context(output.locked(digest_of(mark), overwrite=True))
        work = stack.enter_context(work_of(output, digest_of(mark)))
        output.check_free(digest_of(mark), overwrite=True)
        self.writing = stack, output, write_run(output, name_of(work), mark), mark

    @precondition(lambda self: self.writing is not None)
    @rule(mark=MARKS)
    def second_writer(self, mark):
        """It is refused, or has nothing to do since its result is there; nothing changes."""
        with suppress(TemporaryError):
            assert self.run(mark) is False
            assert mark == self.mark

    @precondition(lambda self: self.writing is not None)
    @rule(commits=st.booleans())
    def end(self, commits):
        stack, output, manifest, mark = self.writing
        if commits:
            output.publish(manifest)
            self.changed(mark)
        stack.close()
        self.ends()
        self.writing = None

    @precondition(lambda self: self.writing is None and self.mark is not None)
    @rule()
    def collect(self):
        collect(self.out)
        self.reading = None

    @precondition(lambda self: self.mark is not None)
    @rule()
    def read_manifest(self):
        self.reading = json.loads(self.content("manifest.json"))
        self.since = 0

    @precondition(lambda self: self.reading is not None and self.since < 2)
    @rule()
    def read_files(self):
        for file in self.reading["files"]:
            content = self.content(file["stored"])
            assert hashlib.sha256(content).hexdigest() == file["sha256"]

    @invariant()
    def what_is_published_is_whole(self):
        if hasattr(self, "mark"):
            assert self.seen() == self.mark


class InABucket(Publication):
    """The same on a store: a request fails before the store does it, or after.

    Writers are told apart by numbers; those that were killed are known to be dead.
    """

    count = 0

    def new_output(self):
        InABucket.count += 1
        self.prefix, self.alive, self.writers = f"out-{InABucket.count}", set(), 0
        self.patch.setattr(remote, "STORE", replace(remote.STORE, output_retries=0))
        self.patch.setattr(lease, "who", lambda: {"process": self.writers})
        self.patch.setattr(lease, "is_gone", lambda holder: holder.process not in self.alive)
        return f"s3://{BUCKET}/{self.prefix}"

    def content(self, name):
        return content(f"{self.prefix}/{name}")

    def seen(self):
        if "manifest.json" not in keys(f"{self.prefix}/"):
            return None
        files = json.loads(self.content("manifest.json"))["files"]
        marks = {self.content(file["file"]).decode().split()[0] for file in files}
        assert len(marks) == 1, f"a mix of {marks}"
        return marks.pop()

    def run(self, mark):
        before, self.writers = self.writers, self.writers + 1
        self.alive.add(self.writers)
        try:
            return super().run(mark)
        finally:
            self.alive.discard(self.writers)
            if self.writing is not None:
                self.writers = before

    def begins(self):
        self.writers += 1
        self.alive.add(self.writers)

    def ends(self):
        self.alive.clear()

    @contextmanager
    def failing(self, after, once):
        requests = []

        def disturbed(real):
            def request(*args, **kwargs):
                requests.append(real)
                failing = after is not None and (
                    len(requests) == after + 1 if once else len(requests) > after
                )
                if failing and (once or len(requests) > after + 1):
                    raise Crash if not once else OSError("the store does not answer")
                answer = real(*args, **kwargs)
                if failing:
                    raise Crash
                return answer

            return request

        import obstore

        with self.patch.context() as patched:
            for name in ("put", "delete", "copy"):
                patched.setattr(obstore, name, disturbed(getattr(obstore, name)))
            yield requests


def test_any_history_of_writers_crashes_and_readers():
    limits = settings(max_examples=30, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(Publication, settings=limits)


def test_any_history_in_a_bucket():
    pytest.importorskip("obstore")
    limits = settings(max_examples=2, stateful_step_count=12, deadline=None)
    with s3_server():
        run_state_machine_as_test(InABucket, settings=limits)
