"""The output of a job, where a run is published by an atomic swap of the manifest.

A file stays in ``.runs/files/RUN`` as long as a manifest lists it: the published manifest, a
candidate, or a replaced manifest. Files of a run that can resume stay, too. A published file has a
second name in ``labels``, ``model`` or ``report``. docs/design/004-publication.md gives the
reasons.
"""

import hashlib
import itertools
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
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
from distsvc.errors.urls import lake_url
from distsvc.storage.places import arrays
from distsvc.storage.places.folder import NO_FENCE, RUNS, ChangedError, Fence, FencedError, Folder
from distsvc.storage.places.lease import Holder, State, hold_lease, is_gone, read_holder
from distsvc.storage.places.location import Location
from distsvc.storage.places.store import REMOVED_RECORD, Store, store_of
from distsvc.storage.publishing.manifest import (
    COPIES,
    MANIFEST,
    STORED,
    ContinuedRun,
    ListedFile,
    Manifest,
    checked,
    checked_form,
    is_removed,
    listed_file,
    read_manifest,
)
from distsvc.storage.tables.files import SUCCESS, reaches

PUBLISHED_FOLDERS = ("labels", "model", "report")
"""Names of the folders of published files; each publication adds a subfolder to each of them."""
BEGUN = "begun.json"
"""Name of the file without which a run is not resumed.

`Output.discard` removes it before the other files, so that no partly removed run is resumed.
"""
WORKDIR = "workdir.json"
"""File with the path of a run's work, if the work is not in the output."""
CONTINUED = "previous.json"
"""Name of the file that records the previous run of an unfinished run.

It is always in the output, even if the unfinished run works in a `workdir`.
"""
CANDIDATES, REPLACED = "held", "replaced"
"""Names of the folders of candidates, and of replaced manifests."""
MAX_CANDIDATES = 3
"""Maximum number of candidates of an output."""
_RUN = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}")


class _Found(NamedTuple):
    """A manifest as bytes and parsed (None if removed); `mark` is the version of its file."""

    content: bytes
    manifest: Manifest | None
    mark: str


class Output:
    """The folder or bucket prefix of published runs; `JobFileError` for an unsupported URL."""

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
        self._fence = NO_FENCE

    @contextmanager
    def locked(
        self,
        job_sha256: str = "",
        overwrite: bool = False,
        doing: State = dict,
        removes: bool = False,
    ) -> Iterator[Holder | None]:
        """Create the folder, and lock it against other runs.

        Yields the record of the last holder if it was killed, else None. The new record stores
        `removes` and, every few seconds, the result of `doing`.

        `OutputPermissionError` if the folder can't be made or written. `TemporaryError` if another
        run has the lock; unless `overwrite`, `JobFileError` if that run has another job.
        """
        self.store.refuse_links((RUNS, *PUBLISHED_FOLDERS))
        unfenced = self.store, self.runs
        holding = hold_lease(self.runs, self.shown, job_sha256, overwrite, doing, removes)
        with holding as self._lease:
            self._fence = Fence(self._lease.spare, self._lease.check)
            self.store, self.runs = (one.fenced(self._fence) for one in unfenced)
            try:
                if self._lease.before is not None and not isinstance(self.store, Folder):
                    self._outdate()
                for name in PUBLISHED_FOLDERS:
                    self.store.remove(name)
                with suppress(DataError):  # a run killed after its commit leaves its work
                    found = self.manifest()
                    for name in found.works.intersection(self.kept_works()) if found else ():
                        self.discard(name)
                yield self._lease.before
            except (OSError, DataError):
                self._fence.check()  # the next holder may have removed the files
                raise
            finally:
                self.store, self.runs = unfenced

    def new_work(
        self, digest: str, workdir: str | None = None, previous: ContinuedRun | None = None
    ) -> Store:
        """Create a new run, and return the store for its work, in `workdir` if given.

        The run's id begins with the first characters of `digest`. `previous` is recorded as the run
        that it continues.
        """
        name = self.new_name(digest)
        if previous is not None:
            self.runs.put(f"{name}/{CONTINUED}", arrays.sealed(previous.model_dump()))
            self.store.settle([f"{RUNS}/{name}/{CONTINUED}"])
        if workdir is not None:
            self.runs.put(f"{name}/{WORKDIR}", arrays.sealed({"at": store_of(workdir).address}))
        work = self.work(name)
        if isinstance(work, Folder):
            arrays.make_folder(work.root, private=True)
        return work

    @staticmethod
    def new_name(digest: str) -> str:
        """Return a unique name that begins with the first characters of `digest`.

        Runs, publications and attempts to resume a run have such names.
        """
        return f"{digest[:12]}-{secrets.token_hex(4)}"

    def work(self, run_id: str) -> Store:
        """Return the store of a run's work, which is empty for an unknown run."""
        here = self.runs.below(run_id)
        found = here.current(WORKDIR)
        with suppress(DataError):
            at = arrays.unsealed(found[0], f"{here.address}/{WORKDIR}") if found else None
            return store_of(at["at"]).below(run_id) if at else here
        return here

    def kept_works(self) -> list[str]:
        return [name for name in self.runs.folders() if _RUN.fullmatch(name)]

    def continued_by(self, run_id: str) -> ContinuedRun | None:
        """Return the previous run of an unfinished run, or None; `DataError` if damaged."""
        name = f"{run_id}/{CONTINUED}"
        found, path = self.runs.current(name), f"{self.runs.address}/{name}"
        return parsed(ContinuedRun, arrays.unsealed(found[0], path), path) if found else None

    def discard(self, run_id: str) -> None:
        """Remove a run that has ended without a result: its work, and its unlisted files.

        A file is unlisted if neither a manifest nor a candidate names it. A process that has lost
        the lease removes nothing.
        """
        # The next start removes what remains.
        with suppress(DataError, JobFileError, TemporaryError, OSError):
            work = self.work(run_id)
            self._fence.check()
            work.remove(BEGUN)
            self._fence.check()
            work.clear("")
            self.runs.clear(run_id)
            self._sweep()

    def manifest(self) -> Manifest | None:
        found = self._look()
        return found.manifest if found else None

    @property
    def is_published(self) -> bool:
        """Whether a manifest exists, even a damaged one."""
        found = self.store.current(MANIFEST)
        return found is not None and not is_removed(found[0])

    @property
    def run_id(self) -> str:
        found = self.manifest()
        return found.run_id if found else ""

    def holds(self, job_sha256: str, input_sha256: str | None = None) -> bool:
        """Return True if the published run has this job, and this input if it is given."""
        found = self.manifest()
        if found is None or found.job_sha256 != job_sha256:
            return False
        return input_sha256 in (None, found.input_sha256)

    def check_apart(self, path: str) -> None:
        """Raise `JobFileError` if the table at `path` lies in this output, or contains it.

        A table also contains the output if its glob matches the output, or if one of its links
        leads there.
        """
        table, published = Location.of(path), self.store.address
        given, own = table.shown, self.shown
        if table.is_local != ("://" not in published):
            return
        if table.is_local:
            source, folder = (Path(os.path.realpath(one)) for one in (table.path, published))
            inside = folder.is_dir() and source.is_relative_to(folder)
            around = reaches(table, published)
        else:
            bare = lake_url(path).path.rstrip("/")
            inside = f"{bare}/".startswith(f"{published}/")
            around = f"{published}/".startswith(f"{bare}/")
        if inside:
            raise JobFileError(f"input.path {given} lies in the folder of the output, {own}")
        if around:
            raise JobFileError(f"output.path {own} lies in the folder of the input, {given}")

    def siblings(self) -> Iterator["Output"]:
        """Yield this output, then the outputs with the suffixes -2, -3 and so on of its path."""
        yield self
        for number in itertools.count(2):
            yield Output(f"{self.shown.rstrip('/')}-{number}")

    def check_free(self, job_sha256: str, overwrite: bool, is_night: bool = False) -> None:
        """Raise `JobFileError` if another run is published here, unless `overwrite`.

        Unless `is_night`, the message also suggests a free output.
        """
        self._found = self._look()
        if overwrite:
            return
        found = self._found.manifest if self._found else None
        if found is None:
            if present := [name for name in (SUCCESS, *COPIES) if self.store.has(name)]:
                raise JobFileError(
                    f"output.path {self.shown} holds {', '.join(present)} without a manifest; "
                    "give --overwrite to replace these files"
                )
            return
        same_job = found.job_sha256 == job_sha256
        what = (
            "from an input that has changed since" if same_job else "by a different configuration"
        )
        fresh = next(one.shown for one in self.siblings() if one.manifest() is None)
        advice = "" if is_night else f"--out {fresh}, or "
        raise JobFileError(
            f"output.path {self.shown} was already published {what}; "
            f"give {advice}--overwrite to replace it"
        )

    def publish(self, manifest: Manifest, again: bool = False) -> Manifest:
        """Commit the files of a manifest, and return the manifest as published.

        If `again`, `manifest` is an earlier manifest or a candidate, whose files are linked under
        new names. `TemporaryError` if another run was published in the meantime.
        """
        if again:
            own, files = self.new_name(manifest.run_id), []
            for one in manifest.files:
                kind, _, rest = one.file.split("/", 2)
                files.append(one.model_copy(update={"file": f"{kind}/{own}/{rest}"}))
            manifest = manifest.model_copy(update={"files": files})
        published = self._swap(manifest)
        try:
            for record in self.runs.sizes(CANDIDATES):  # of older runs, and perhaps of this one
                self.runs.remove(record)
            self.finish()
        except DistsvcError as error:
            raise type(error)(f"the run is published in {self.shown}, but {error}") from error
        return published

    def hold(self, manifest: Manifest) -> list[str]:
        """Store a candidate; remove the oldest candidates, and return their ids."""
        self.store.settle(manifest.stored)
        record = f"{CANDIDATES}/{manifest.run_id}.json"
        try:
            self.runs.put(record, manifest.content())
            self._fence.check()
        except TemporaryError:  # nobody else writes this record
            store_of(self.runs.address).remove(record)
            raise
        others = [one for one in self.candidates().values() if one.run_id != manifest.run_id]
        others.sort(key=lambda one: (one.created, one.run_id), reverse=True)
        gone = [one.run_id for one in others[MAX_CANDIDATES - 1 :]]
        for run_id in gone:
            self.runs.remove(f"{CANDIDATES}/{run_id}.json")
        self._sweep()
        return gone

    def withdraw(self, manifest: Manifest) -> None:
        """Turn the published run into a candidate; after a kill, the run may be both."""
        self.hold(manifest)
        self.unpublish(manifest.run_id)
        self._sweep()

    def candidates(self) -> dict[str, Manifest]:
        """Return the manifests of candidates by run id; `DataError` if one is damaged."""
        found = {}
        for name in self.runs.sizes(CANDIDATES):
            content = arrays.read_json(self.runs.local(name))
            manifest = checked_form(content, f"{self.runs.address}/{name}")
            found[manifest.run_id] = manifest
        return found

    def revise(self, contents: Mapping[str, str | bytes]) -> None:
        """Replace files of the published run, such as ``report.json``, by the given contents.

        A new manifest is published that lists the new files. Errors as in `file`.
        """
        self._found = self._look()
        with self.rewritten(read_manifest(self.store), contents) as manifest:
            self._swap(manifest)
        self.finish()

    @contextmanager
    def rewritten(
        self, manifest: Manifest, contents: Mapping[str, str | bytes]
    ) -> Iterator[Manifest]:
        """Write files with the given contents by name, and yield a manifest that lists them.

        They replace the manifest's files of these names, or are added to the manifest. If the body
        fails, the new files are removed.
        """
        own = self.new_name(manifest.run_id)
        folder = f"{STORED}/{manifest.run_id}/{own}"
        files = {file.file: file for file in manifest.files}
        names = {file.name for file in manifest.files}
        try:
            for name, content in contents.items():
                new_file = f"report/{own}/{name}"
                old = listed_file(self.store, manifest, name).file if name in names else new_file
                with self.store.created(f"{folder}/{name}") as path:
                    arrays.write_content(path, content)
                    new = {"file": new_file, "stored": f"{folder}/{name}"}
                    files[old] = ListedFile.model_validate(new | arrays.file_facts(path))
            yield manifest.model_copy(update={"files": list(files.values())})
        except BaseException:
            with suppress(DistsvcError, OSError):
                self.store.clear(folder, self._named())
            raise

    def finish(self) -> None:
        """Complete a publication: remove unlisted files, update `COPIES` and ``_SUCCESS``."""
        manifest = self.manifest()
        if manifest is not None:
            self.runs.remove(f"{CANDIDATES}/{manifest.run_id}.json")
        with suppress(DataError):
            self._sweep()
        originals = {one.name: one for one in manifest.files} if manifest else {}
        for name in COPIES:
            if name not in originals:
                self.store.remove(name)
                continue
            content = checked(self.store, originals[name]).read_bytes()
            there = self.store.current(name)
            if there is None or there[0] != content:
                self.store.swap(name, content, there and there[1])
        if not self.store.has(SUCCESS):
            self.store.put(SUCCESS, b"")

    def mend(self) -> None:
        """Finish a publication killed after its commit; do nothing if locked or not writable."""
        with suppress(TemporaryError, OutputPermissionError, OSError), self.locked():
            self.finish()

    def leftovers(self) -> list[str]:
        """Return the names of the files that `collect` would remove.

        These are the work of unfinished runs, and files of runs that are neither published nor
        candidates.
        """
        named, found = self._named(replaced=False), set[str]()
        for name in self.kept_works():
            found.update(f"{RUNS}/{name}/{file}" for file in self.work(name).sizes())
        for manifest in self.replaced():
            found.update(filter(self.store.has, manifest.stored))
        for folder in self._folders():
            found.update(self.store.sizes(folder))
        return sorted(found - named)

    def collect(self) -> list[str]:
        """Remove the `leftovers`, and return their names. Unfinished runs can't resume after it."""
        found = self.leftovers()
        self._forget_replaced()
        for name in self.kept_works():
            self.discard(name)
        self._sweep()
        return sorted(set(found).difference(self.leftovers()))

    def file(self, name: str) -> Path:
        """Return the path of a published file; `DataError` if missing or unlike the manifest."""
        found = read_manifest(self.store)
        return checked(self.store, listed_file(self.store, found, name))

    def _look(self) -> _Found | None:
        found, path, manifest = self.store.current(MANIFEST), f"{self.shown}/{MANIFEST}", None
        if found is not None and not is_removed(found[0]):
            manifest = checked_form(arrays.parse_json(found[0], path), path)
        return found and _Found(found[0], manifest, found[1])

    def _outdate(self) -> None:
        """Write a new version of the manifest.

        The previous lease holder may have sent a swap that arrives late. The swap then fails.
        """
        found = self._look()
        if found is None or found.manifest is None:
            content = REMOVED_RECORD.replace(b"}", b"}" + b" " * secrets.randbelow(4096))
        else:
            news = {"write_id": secrets.token_hex(8)}
            content = found.manifest.model_copy(update=news).content()
        self.store.swap(MANIFEST, content, found and found.mark)

    def unpublish(self, run_id: str) -> None:
        """Remove a run's manifest and `COPIES`; `TemporaryError` if another run is published."""
        found = self._look()
        if found and found.manifest:
            is_own = found.manifest.run_id == run_id
            if not is_own or not self.store.remove(MANIFEST, found.mark):
                raise TemporaryError(f"another run was published in {self.shown} in the meantime")
        for name in (SUCCESS, *COPIES):
            self.store.remove(name)

    def _swap(self, manifest: Manifest) -> Manifest:
        """Write a manifest's files to disk, replace the old manifest, and return the new one."""
        old, replaced = self._found, None
        before = old.manifest if old else None
        is_revised = before is not None and before.run_id == manifest.run_id
        if old is not None and before is not None:
            # Named after its content, as a run killed before its swap left the same record.
            replaced = f"{REPLACED}/{hashlib.sha256(old.content).hexdigest()[:32]}.json"
            self.runs.put(replaced, old.content)
        manifest = manifest.model_copy(update={"write_id": secrets.token_hex(8)})
        content, there = manifest.content(), {one.file for one in before.files} if before else ()
        new = {one.file: one.stored for one in manifest.files if one.file not in there}
        swapping = False
        try:
            self.store.link(new)
            self.store.settle([*manifest.stored, *new])
            self._fence.check()
            swapping = True
            mark = self.store.swap(MANIFEST, content, old and old.mark)
        except BaseException as error:
            if not swapping or isinstance(error, ChangedError | FencedError):
                for folder in {"/".join(name.split("/")[:2]) for name in new}:  # this publication's
                    store_of(self.store.address).clear(folder)
            if isinstance(error, ChangedError):
                what = f"another run was published in {self.shown} in the meantime"
                raise TemporaryError(what) from None
            raise
        self._found = _Found(content, manifest, mark)
        if not is_revised:  # after a revision, the run before can still be published again
            self._forget_replaced(replaced)
        return manifest

    def _folders(self) -> list[str]:
        pairs = ((kind, self.store.folders(kind)) for kind in (*PUBLISHED_FOLDERS, STORED))
        return [f"{kind}/{name}" for kind, names in pairs for name in names if _RUN.fullmatch(name)]

    def _sweep(self) -> None:
        """Remove the files that no record names, except those of runs that can resume.

        Folders are listed before the records are read. So the files of a run that is published in
        the meantime stay.
        """
        begun = {f"{STORED}/{name}" for name in self.kept_works()}
        folders = [name for name in self._folders() if name not in begun]
        named = self._named()
        for folder in folders:
            self.store.clear(folder, named)

    def _forget_replaced(self, but: str | None = None) -> None:
        """Remove the records of replaced manifests except `but`."""
        for record in set(self.runs.sizes(REPLACED)) - {but}:
            self.runs.remove(record)

    def replaced(self) -> list[Manifest]:
        """Return the replaced manifests without the damaged ones."""
        found = []
        for record in self.runs.sizes(REPLACED):
            with suppress(OSError, DataError, JobFileError):
                found.append(checked_form(arrays.read_json(self.runs.local(record)), record))
        return found

    def _named(self, replaced: bool = True) -> set[str]:
        """Return the paths of the files that the manifest and the candidates list.

        If `replaced`, the files of replaced manifests are included.
        """
        found = self.manifest()
        named = {name for one in (found.files if found else ()) for name in (one.file, one.stored)}
        for manifest in (*self.candidates().values(), *(self.replaced() if replaced else ())):
            named.update(manifest.stored)
        return named


def check_not_held(output: Output) -> None:
    """Raise `TemporaryError` if a running process has locked the output; write nothing."""
    holder = read_holder(output.runs)
    if holder is not None and not is_gone(holder):
        raise TemporaryError(f"another run is writing to {output.shown}: {holder}")


def collect(path: str, dry_run: bool = False) -> list[str]:
    """Remove the `Output.leftovers` of an output, and return their names.

    With `dry_run`, nothing is removed. `InputNotFoundError` if no run ever wrote to the output.
    """
    output = Output(path)
    if RUNS not in output.store.folders():
        raise InputNotFoundError(
            f"no run was published in {path}; for nights below it: distsvc history {path}"
        )
    if dry_run:
        check_not_held(output)
        return output.leftovers()
    with output.locked():
        removed = output.collect()
        if output.manifest() is not None:
            output.finish()  # a killed run may have left this undone
        return removed
