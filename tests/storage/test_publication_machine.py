"""Any history of writers, crashes and readers: what is published is one whole result."""

import hashlib
import json
import os
import tempfile
from contextlib import ExitStack, suppress
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
from distsvc.storage.publication import Output, collect
from tests.storage.publishing import Crash, crashing, digest_of, run, seen, write_run

MARKS = st.sampled_from("abc")


class Publication(RuleBasedStateMachine):
    """One writer at a time gets further than the lock, any step can be the last, readers follow.

    A reader that has read a manifest finds its files until two others were published since.
    """

    @initialize()
    def start(self):
        self.stack = ExitStack()
        self.out = Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "out"
        self.patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        self.patch.setattr(os, "fsync", lambda descriptor: None)
        self.mark, self.writing, self.reading, self.since = None, None, None, 0

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
        error = Crash() if not once else OSError(28, "No space left on device")
        failing = crashing(self.patch, 10_000 if after is None else after, error, once)
        with failing as changes, suppress(Crash, OSError, DistsvcError):
            run(self.out, mark)
        whole = after is None or len(changes) <= after
        found = seen(self.out)
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
        stack.enter_context(output.locked(digest_of(mark), overwrite=True))
        folder = stack.enter_context(output.run_folder(digest_of(mark)))
        output.check_free(digest_of(mark), overwrite=True)
        self.writing = stack, output, write_run(output, folder.name, mark), mark

    @precondition(lambda self: self.writing is not None)
    @rule(mark=MARKS)
    def second_writer(self, mark):
        """It is refused, or has nothing to do since its result is there; nothing changes."""
        with suppress(TemporaryError):
            assert run(self.out, mark) is False
            assert mark == self.mark

    @precondition(lambda self: self.writing is not None)
    @rule(commits=st.booleans())
    def end(self, commits):
        stack, output, manifest, mark = self.writing
        if commits:
            output.publish(manifest)
            self.changed(mark)
        stack.close()
        self.writing = None

    @precondition(lambda self: self.writing is None and self.mark is not None)
    @rule()
    def collect(self):
        collect(str(self.out))
        self.reading = None

    @precondition(lambda self: self.mark is not None)
    @rule()
    def read_manifest(self):
        self.reading = json.loads((self.out / "manifest.json").read_text())
        self.since = 0

    @precondition(lambda self: self.reading is not None and self.since < 2)
    @rule()
    def read_files(self):
        for file in self.reading["files"]:
            content = (self.out / file["file"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file["sha256"]

    @invariant()
    def what_is_published_is_whole(self):
        if hasattr(self, "mark"):
            assert seen(self.out) == self.mark


def test_any_history_of_writers_crashes_and_readers():
    limits = settings(max_examples=30, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(Publication, settings=limits)
