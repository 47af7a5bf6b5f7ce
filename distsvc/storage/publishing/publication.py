"""The output of a job: the manifest is the commit, swapped in one step.

The published files of a run lie in folders of its own, ``labels/<run>``, ``model/<run>`` and
``report/<run>``, written once and never moved. So the files of the manifest are whole at every
moment, also for a while after another manifest has replaced it: replaced files are removed when the
next run is published, or by `Output.collect`.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from distsvc.errors import (
    DataError,
    DistsvcError,
    InputNotFoundError,
    JobFileError,
    OutputPermissionError,
    TemporaryError,
)
from distsvc.errors.forms import parsed
from distsvc.errors.urls import lake_url, without_user
from distsvc.storage.places.arrays import (
    described,
    json_bytes,
    parse_json,
    read_json,
    sealed,
    unsealed,
    write_text,
)
from distsvc.storage.places.folder import SPARE, ChangedError, Folder
from distsvc.storage.places.lease import Holder, Lease, State, held, is_gone, read_holder
from distsvc.storage.places.location import Location
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.manifest import (
    COPIES,
    FORMAT,
    MANIFEST,
    SUCCESS,
    ContinuedRun,
    ListedFile,
    Manifest,
    checked,
    checked_form,
    listed,
    names_in,
    read_manifest,
)

RUNS = SPARE
KINDS = ("labels", "model", "report")
"""The folders in which each run has a folder of published files."""
WORKDIR = "workdir.json"
"""The file that names the folder of a run's work, if that is not beside it."""
CONTINUED = "previous.json"
"""The file that names the run which a begun one continues; in the output, wherever its work is."""
HELD, REPLACED = "held", "replaced"
"""The folders, in that of the runs, of candidates that a check held back and of old manifests."""
KEPT = 3
"""Candidates that an output keeps, the newest: each is a whole result."""
_RUN = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}")


class _Found(NamedTuple):
    """The manifest at an output, as it is and parsed, and the mark of its version."""

    content: bytes
    manifest: Manifest
    mark: str


class Output:
    """The folder or bucket prefix where a run is published; `JobFileError` for another path."""

    def __init__(self, path: str | Path):
        if not str(path).strip():
            raise JobFileError("output.path: expected a folder or a URL, found an empty text")
        try:
            self.store = store_of(path)
        except JobFileError as error:
            raise JobFileError(f"output.path: {error}") from None
        self.runs = self.store.below(RUNS)
        self.shown = str(path)
        self._found: _Found | None = None
        self._lease: Lease | None = None

    @contextmanager
    def locked(
        self,
        job_sha256: str = "",
        overwrite: bool = False,
        doing: State = dict,
        removes: bool = False,
    ) -> Iterator[Holder | None]:
        """Make the folder, and hold it against other runs.

        `doing` is told to whoever asks, every few seconds, and whether what is published is to be
        removed. Yields the last record of a process that held the output before and was killed, or
        None.

        Raises
        ------
        OutputPermissionError
            The folder can't be made or written.
        TemporaryError
            Another run holds it.
        JobFileError
            A run of another job holds it, and the output is not to be overwritten.

        """
        if isinstance(self.store, Folder):
            self.store.refuse_links((RUNS, *KINDS))
        asked = self.shown, job_sha256, overwrite, doing, removes
        with held(self.runs, *asked) as self._lease:
            for name in KINDS:
                self.store.remove(name)
            for name in (MANIFEST, *COPIES):
                self.runs.remove(name)
            self._discard_published()
            yield self._lease.before

    def new_work(
        self, digest: str, workdir: str | None = None, previous: ContinuedRun | None = None
    ) -> Store:
        """Return the store of a new run's work, whose name begins with the digest of its job.

        That is `workdir`, if one is given: the folder of runs remembers where. It remembers, too,
        the run that the new one continues: `previous`.
        """
        name = f"{digest[:12]}-{secrets.token_hex(4)}"
        if previous is not None:
            self.runs.put(f"{name}/{CONTINUED}", sealed(previous.model_dump()))
            if isinstance(self.runs, Folder):
                self.runs.settle([f"{name}/{CONTINUED}"])
        if workdir is not None:
            self.runs.put(f"{name}/{WORKDIR}", sealed({"at": store_of(workdir).address}))
        return self.work(name)

    def work(self, run_id: str) -> Store:
        """Return the store of a run's work, an empty one where it is not known any more."""
        here = self.runs.below(run_id)
        found = here.current(WORKDIR)
        with suppress(DataError):
            at = unsealed(found[0], f"{here.address}/{WORKDIR}") if found else None
            return store_of(at["at"]).below(run_id) if at else here
        return here

    def kept_works(self) -> list[str]:
        """Return the names of the runs whose work is kept."""
        return [name for name in self.runs.folders() if _RUN.fullmatch(name)]

    def continued_by(self, run_id: str) -> ContinuedRun | None:
        """Return the run that a begun one continues, if it does.

        `DataError` where that is known no more.
        """
        name = f"{run_id}/{CONTINUED}"
        found, path = self.runs.current(name), f"{self.runs.address}/{name}"
        return parsed(ContinuedRun, unsealed(found[0], path), path) if found else None

    def discard(self, run_id: str, first: str = "") -> None:
        """Remove the work of a run that is over, and its files unless they are published.

        `first` is the file that makes it a run, and is removed before all else.
        Nothing is removed by a process that was thought dead: its successor goes on with the files.
        """
        with suppress(DataError, TemporaryError, OSError):  # the next start removes what is left
            if self._lease is not None:
                self._lease.check()
            known = self._known()
            if first:
                self.work(run_id).remove(first)
            for name in KINDS:
                self.store.clear(f"{name}/{run_id}", known)
            self.work(run_id).clear("")
            self.runs.clear(run_id)

    def _discard_published(self) -> None:
        """Remove the work of the run that is published, which was killed after its commit."""
        with suppress(DataError):
            name = self.run_id
            if name in self.kept_works():
                self.discard(name)

    def manifest(self) -> Manifest | None:
        """Return the manifest that is published here, or None."""
        found = self._look()
        return found and found.manifest

    @property
    def run_id(self) -> str:
        """The id of the run that is published here; empty where there is none."""
        found = self.manifest()
        return found.run_id or "" if found else ""

    def holds(self, job_sha256: str, input_sha256: str | None = None) -> bool:
        """Return whether a run of this job is published here, from this input if one is given."""
        found = self.manifest()
        return (
            found is not None
            and found.format == FORMAT
            and found.job_sha256 == job_sha256
            and input_sha256 in (None, found.input_sha256)
        )

    def check_apart(self, paths: Sequence[str]) -> None:
        """Check that neither a table nor the output of its job lies in the other's folder.

        Raises `JobFileError` where one does.
        """
        for path in paths:
            self._check_apart(path)

    def _check_apart(self, path: str) -> None:
        table, published = Location.of(path), self.store.address
        given, own = table.shown, self.shown
        if table.is_local != ("://" not in published):
            return
        if table.is_local:
            source, folder = Path(table.path).resolve(), Path(published).resolve()
            inside = folder.is_dir() and source.is_relative_to(folder)
            around = source.is_dir() and folder.is_relative_to(source)
        else:
            bare = without_user(lake_url(path).path).rstrip("/")
            inside = f"{bare}/".startswith(f"{published}/")
            around = f"{published}/".startswith(f"{bare}/")
        if inside:
            raise JobFileError(f"input.path {given} lies in the folder of the output, {own}")
        if around:
            raise JobFileError(f"output.path {own} lies in the folder of the input, {given}")

    def check_free(self, job_sha256: str, overwrite: bool) -> None:
        """Check that a run may be published here, which is not the one that is.

        Raises `JobFileError` where something else is, and `overwrite` is false.
        """
        self._found = self._look()
        if overwrite:
            return
        if self._found is None:
            present = [name for name in (SUCCESS, *COPIES) if self.store.has(name)]
            if present:
                raise JobFileError(
                    f"output.path {self.shown} holds {', '.join(present)} without a manifest; "
                    "give --overwrite to replace it"
                )
            return
        what = "by a different configuration"
        found = self._found.manifest
        if found.format != FORMAT:
            what = f"by another version of distsvc (format {found.format!r})"
        elif found.job_sha256 == job_sha256:
            what = "from an input that has changed since"
        raise JobFileError(
            f"output.path {self.shown} was already published {what}; "
            "give --overwrite to replace it, or another path"
        )

    def publish(self, manifest: Manifest) -> Manifest:
        """Commit the files of a manifest; until then, the run published before is untouched.

        Returns the manifest as it is published. Raises `TemporaryError` where something
        else was published here in the meantime, past the lock.
        """
        published = self._swap(manifest)
        for record in self.runs.sizes(HELD):  # of an answer that is older, or this one
            self._let_go(PurePosixPath(record).stem, published)
        try:
            self.finish()
        except DistsvcError as error:
            raise type(error)(f"the run is published in {self.shown}, but {error}") from error
        return published

    def hold(self, manifest: Manifest) -> list[str]:
        """Keep a candidate beside what is published; return older ones that are given up."""
        self._settle(manifest)
        self.runs.put(f"{HELD}/{manifest.run_id}.json", manifest.content())
        others = [one for run_id, one in self.held().items() if run_id != manifest.run_id]
        others.sort(key=lambda one: (one.created, one.run_id))
        gone = [one.run_id for one in others[: max(len(others) + 1 - KEPT, 0)]]
        for run_id in gone:
            self._let_go(run_id)
        self._remove_replaced(self._known(), [f"{REPLACED}/{run_id}.json" for run_id in gone])
        return gone

    def held(self) -> dict[str, Manifest]:
        """Return the manifests that are held back, by their runs; `DataError` for a damaged one."""
        names = self.runs.sizes(HELD)
        contents = {f"{self.runs.address}/{one}": read_json(self.runs.local(one)) for one in names}
        found = [checked_form(content, path) for path, content in contents.items()]
        return {manifest.run_id: manifest for manifest in found}

    def _let_go(self, run_id: str, published: Manifest | None = None) -> None:
        """Hold a candidate back no more; its files that are not published go in due time.

        Those that a damaged record named are left to `collect`.
        """
        record = f"{HELD}/{run_id}.json"
        found = self.runs.current(record)
        if found is not None:
            kept = published.names if published else []
            with suppress(DataError):
                names = names_in(parse_json(found[0], record))
                files = {"files": [{"file": name} for name in names if name not in kept]}
                self.runs.put(f"{REPLACED}/{run_id}.json", json_bytes(files))
            self.runs.remove(record)

    def revise(self, name: str, content: str) -> None:
        """Publish another content of a file: a new file, in whose favour the manifest is swapped.

        Errors as in `file`.
        """
        self._found = self._look()
        with self.rewritten(read_manifest(self.store), {name: content}) as manifest:
            self._swap(manifest)
        self.finish()

    @contextmanager
    def rewritten(self, manifest: Manifest, contents: dict[str, str]) -> Iterator[Manifest]:
        """Yield a manifest with other contents of files: new ones, which go if it is not published.

        Errors as in `file`.
        """
        folder = f"report/{manifest.run_id}/{secrets.token_hex(4)}"
        files = {file.file: file for file in manifest.files}
        try:
            for name, content in contents.items():
                old = listed(self.store, manifest, name)
                with self.store.created(f"{folder}/{name}") as path:
                    write_text(path, content)
                    new = {"file": f"{folder}/{name}"} | described(path)
                    files[old] = ListedFile.model_validate(new)
            yield manifest.model_copy(update={"files": list(files.values())})
        finally:
            self.store.clear(folder, self._known())

    def finish(self) -> None:
        """Bring the files beside the manifest up to date: copies for people, ``_SUCCESS``."""
        manifest = self.manifest()
        if manifest is not None:
            self._let_go(manifest.run_id, manifest)
        names = manifest.names if manifest else ()
        originals = {name.rpartition("/")[2]: name for name in names}
        for name in COPIES:
            if name not in originals:
                self.store.remove(name)
                continue
            content = self.store.local(originals[name]).read_bytes()
            there = self.store.current(name)
            if there is None or there[0] != content:
                self.store.put(name, content)
        if not self.store.has(SUCCESS):
            self.store.put(SUCCESS, b"")

    def mend(self) -> None:
        """Finish what a killed run left undone after its commit, if that can be done now."""
        with suppress(TemporaryError, OutputPermissionError, OSError), self.locked():
            self.finish()

    def leftovers(self) -> list[str]:
        """Return the names of the files that `collect` would remove."""
        known, found = self._known(), set[str]()
        for record in self.runs.sizes(REPLACED):
            with suppress(OSError, DataError):
                found.update(filter(self.store.has, names_in(read_json(self.runs.local(record)))))
        for name in self.kept_works():
            found.update(f"{RUNS}/{name}/{file}" for file in self.work(name).sizes())
        for folder in self.folders():
            found.update(self.store.sizes(folder))
        return sorted(found - known)

    def collect(self) -> list[str]:
        """Remove files of runs that the manifest does not name; return their names.

        No run lives, since we hold the output; interrupted runs can't continue then.
        """
        known = self._known()
        removed = self._remove_replaced(known, list(self.runs.sizes(REPLACED)))
        for name in self.kept_works():
            removed += [f"{RUNS}/{name}/{file}" for file in self.work(name).clear("")]
            self.runs.clear(name)
        for folder in self.folders():
            removed += self.store.clear(folder, known)
        return removed

    def file(self, name: str) -> Path:
        """Return where a published file can be read, by its own name.

        Raises `InputNotFoundError` where no run is published here, `DataError` where the
        manifest is damaged or lists no such file, or the file is not the one listed, and
        `JobFileError` where another version of distsvc published the run.
        """
        found = read_manifest(self.store)
        return checked(self.store, found, listed(self.store, found, name))

    def _look(self) -> _Found | None:
        """Return the manifest that is here, if there is one."""
        found = self.store.current(MANIFEST)
        if found is None:
            return None
        path = f"{self.shown}/{MANIFEST}"
        manifest = checked_form(parse_json(found[0], path), path, any_version=True)
        return _Found(found[0], manifest, found[1])

    def _settle(self, manifest: Manifest) -> None:
        """Return once the files of a manifest would outlast a loss of power."""
        if isinstance(self.store, Folder):
            self.store.settle(manifest.names)

    def _swap(self, manifest: Manifest) -> Manifest:
        """Replace the manifest that is there, once its files are on disk; return it as written."""
        old, replaced = self._found, None
        if old is not None:
            # Named after its content: a run that was killed before its swap wrote the same record.
            replaced = f"{REPLACED}/{hashlib.sha256(old.content).hexdigest()[:32]}.json"
            self.runs.put(replaced, old.content)
        manifest = manifest.model_copy(update={"write_id": secrets.token_hex(8)})
        content = manifest.content()
        self._settle(manifest)
        if self._lease is not None:
            self._lease.check()
        try:
            mark = self.store.swap(MANIFEST, content, old and old.mark)
        except ChangedError:
            what = f"another run was published in {self.shown} in the meantime"
            raise TemporaryError(what) from None
        self._found = _Found(content, manifest, mark)
        records = [record for record in self.runs.sizes(REPLACED) if record != replaced]
        self._remove_replaced(set(manifest.names), records)
        return manifest

    def folders(self) -> list[str]:
        """Return the folders of published files, whole or begun."""
        found = [f"{name}/{run_id}" for name in KINDS for run_id in self.store.folders(name)]
        return [name for name in found if _RUN.fullmatch(PurePosixPath(name).name)]

    def _remove_replaced(self, known: set[str], records: Sequence[str]) -> list[str]:
        """Remove the files that records of old manifests list, and that are not `known`."""
        removed = []
        for record in records:
            with suppress(OSError, DataError):  # it stays for the next time
                names = names_in(read_json(self.runs.local(record)))
                removed += [n for n in names if n not in known and self.store.remove(n)]
                self.runs.remove(record)
        return removed

    def _known(self) -> set[str]:
        """Return the names of the files that are published, or held back."""
        several = [self.manifest(), *self.held().values()]
        return {name for manifest in several if manifest for name in manifest.names}


def check_idle(output: Output) -> None:
    """Check that no living process holds an output, as `Output.locked` does, which writes to it.

    `TemporaryError` where one does, or may do so.
    """
    holder = read_holder(output.runs)
    if holder is not None and not is_gone(holder):
        raise TemporaryError(f"another run is writing to {output.shown}: {holder}")


def collect(path: str, dry_run: bool = False) -> list[str]:
    """Remove files that no manifest names from an output, and return their names.

    With `dry_run`, nothing is removed.

    Errors as in `Output.locked`; `InputNotFoundError` where no run ever wrote.
    """
    output = Output(path)
    if RUNS not in output.store.folders():
        raise InputNotFoundError(f"no run was published in {path}: it has no folder {RUNS}")
    if dry_run:
        check_idle(output)
        return output.leftovers()
    with output.locked():
        return output.collect()
