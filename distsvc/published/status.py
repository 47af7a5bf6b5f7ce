"""The state of an output: which runs are published, held back, running or interrupted."""

from typing import TypedDict

from distsvc.errors import InputNotFoundError
from distsvc.published.republish import continues_gone, waiting_at
from distsvc.run.starting import STOPPED, Note, interrupted_runs, kept_results, read_note
from distsvc.storage.places.folder import RUNS
from distsvc.storage.places.lease import is_gone, read_holder
from distsvc.storage.publishing.manifest import PAGE, Manifest, listed_file
from distsvc.storage.publishing.publication import BEGUN, Output

FACTS = ("run_id", "created", "rows", "clusters")
"""Fields of the manifest that describe a published run or a candidate."""


class Status(TypedDict):
    """The state of an output, as JSON values."""

    output: str
    published: Note | None  # id, moment, rows and clusters of the published run
    running: Note | None  # process that writes to the output; `alive` is None if unknown
    held: list[Note]  # candidates
    interrupted: list[Note]  # runs that can be resumed; `kept` counts the stored results of a phase


def status(path: str) -> Status:
    """Return the state of an output; raise `InputNotFoundError` if no run has written there."""
    output = Output(path)
    manifest = output.manifest()
    if manifest is None and RUNS not in output.store.folders():
        raise InputNotFoundError(
            f"no run was published in {path}; for nights below it: distsvc history {path}"
        )
    holder = read_holder(output.runs)
    gone = is_gone(holder) if holder else True
    running: Note | None = None
    if holder and not gone:
        fields = "process", "host", "since", "now", "doing"
        running = {name: getattr(holder, name) for name in fields}
        running["alive"] = None if gone is None else True
    doing = (holder and holder.doing) or {}
    interrupted: list[Note] = []
    for run in interrupted_runs(output):
        if running is not None and doing.get("run") in (run.name, None):
            continue
        stopped = read_note(run, STOPPED)
        if holder and gone and doing.get("run") == run.name:
            stopped = doing | {"now": holder.now, "why": "killed"}
        names = "now", "why", "phase", "done", "total", "seconds"
        known = {name: stopped.get(name) for name in names}
        begun = read_note(run, BEGUN).get("begun")
        interrupted.append(
            {"run_id": run.name, "begun": begun, "kept": kept_results(run), "stopped": known}
        )
    return {
        "output": output.store.address,
        "published": {name: getattr(manifest, name) for name in FACTS} if manifest else None,
        "running": running,
        "held": [_held(output, one) for one in waiting_at(output).values()],
        "interrupted": interrupted,
    }


def _held(output: Output, one: Manifest) -> Note:
    """Return a candidate as JSON values.

    The list ``failed`` has the checks that held the run back; it is empty for a withdrawn run.
    """
    page = f"{output.shown.rstrip('/')}/{listed_file(output.store, one, PAGE).stored}"
    failed = [check.model_dump() for check in one.failed]
    known = {name: getattr(one, name) for name in FACTS}
    return known | {"failed": failed, "page": page, "gone": continues_gone(one)}


def status_lines(found: Status) -> list[str]:
    """Return the state of an output as lines of text."""
    published, running = found["published"], found["running"]
    lines = ["published: nothing"]
    if published:
        lines = [
            f"published: run {published['run_id']} of {published['created']}, "
            f"{published['rows']:,} rows, {published['clusters']} clusters"
        ]
    if running:
        who = f"process {running['process']} on {running['host']}, since {running['since']}"
        sign = f"; last sign of life {running['now']}" if running["now"] else ""
        lines.append(f"running: {who}{sign}{_where(running['doing'] or {})}")
    for one in found["held"]:
        failed = "; ".join(check["words"] for check in one["failed"]) or "withdrawn"
        failed += f"; {one['gone']}" if one["gone"] else ""
        lines.append(
            f"held back: run {one['run_id']} of {one['created']}, {one['rows']:,} rows, "
            f"{one['clusters']} clusters; {failed}; see {one['page']}"
        )
    for run in found["interrupted"]:
        stopped = run["stopped"]
        kept = ", ".join(f"{phase} {n}" for phase, n in run["kept"].items()) or "nothing"
        why = f" ({stopped['why']})" if stopped["why"] else ""
        lines.append(
            f"interrupted: run {run['run_id']}, begun {run['begun']}, stopped "
            f"{stopped['now'] or 'at an unknown time'}{why}{_where(stopped)}; kept: {kept}"
        )
    return lines


def _where(doing: Note) -> str:
    phase, done, total = (doing.get(name) for name in ("phase", "done", "total"))
    if not phase:
        return ""
    count = f", {done} of {total} done" if total else ""
    left = doing.get("seconds_left")
    return f"; phase {phase}{count}" + (f", {left:.0f} s left" if left else "")
