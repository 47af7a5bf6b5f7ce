"""Events for OpenLineage at the start and the end of a run.

OpenLineage's environment variables choose the transport. A thread sends the events, since a
transport may hang.
"""

import datetime
import logging
import os
import re
import threading
from queue import SimpleQueue
from urllib.parse import urlsplit

from openlineage.client import OpenLineageClient
from openlineage.client import event_v2 as ol
from openlineage.client.facet_v2 import (
    RunFacet,
    data_quality_assertions_dataset,
    error_message_run,
    nominal_time_run,
    output_statistics_output_dataset,
)
from openlineage.client.uuid import generate_new_uuid

from distsvc import __version__
from distsvc.errors.faults import named
from distsvc.errors.urls import lake_url
from distsvc.job.config import Job
from distsvc.monitoring.outcome import RunOutcome

SEND_TIMEOUT_S = 3.0
"""Maximum time for sending events after the end of a run, in seconds."""

PRODUCER = f"urn:distsvc:{__version__}"

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_GLOB = re.compile(r"/[^/]*[*?\[].*")


class Events:
    """Sends the events of a run."""

    def __init__(self, job: Job):
        logging.getLogger("openlineage").addHandler(logging.NullHandler())
        self._job, self._run_id = job, str(generate_new_uuid())
        self._waiting: SimpleQueue[ol.RunEvent | None] = SimpleQueue()
        self._wrong = ""
        self._thread = threading.Thread(target=self._send, name="openlineage", daemon=True)
        self._waiting.put(self._event(ol.RunState.START))
        self._thread.start()

    def end(self, outcome: RunOutcome) -> str:
        """Send the final event; return the first error of all events as text, or ''."""
        state = ol.RunState.FAIL if outcome.exit_code else ol.RunState.COMPLETE
        try:
            self._waiting.put(self._event(state, outcome))
        except Exception as error:
            self._wrong = named(error)
        self._waiting.put(None)
        self._thread.join(SEND_TIMEOUT_S)
        if self._thread.is_alive() and not self._wrong:
            return f"not every event was sent within {SEND_TIMEOUT_S:.0f} s of the end of the run"
        return self._wrong

    def _send(self) -> None:
        """Send queued events until the queue returns None; store the first error."""
        client = None
        while (event := self._waiting.get()) is not None:
            try:
                client = client or OpenLineageClient()
                client.emit(event)
            except Exception as error:
                self._wrong = self._wrong or f"an event was not sent: {named(error)}"
        try:
            if client is not None:
                client.close(SEND_TIMEOUT_S)
        except Exception as error:
            self._wrong = self._wrong or named(error)

    def _event(self, state: ol.RunState, outcome: RunOutcome | None = None) -> ol.RunEvent:
        job, facets = self._job.job, dict[str, RunFacet]()
        if job.run_date is not None:
            day = datetime.datetime.fromisoformat(job.run_date).replace(tzinfo=datetime.UTC)
            facets["nominalTime"] = nominal_time_run.NominalTimeRunFacet(
                nominalStartTime=day.isoformat(),
                nominalEndTime=(day + datetime.timedelta(1)).isoformat(),
                producer=PRODUCER,
            )
        if outcome is not None and outcome.error:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=outcome.error, programmingLanguage="python", producer=PRODUCER
            )
        output = ol.OutputDataset(*dataset_name(self._job.output.path))
        if outcome is not None and outcome.published and outcome.report is not None:
            facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=outcome.report.input.n_rows, producer=PRODUCER
            )
            output.outputFacets = {"outputStatistics": facet}
        namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or "distsvc"
        return ol.RunEvent(
            eventType=state,
            eventTime=datetime.datetime.now(datetime.UTC).isoformat(),
            run=ol.Run(runId=self._run_id, facets=facets),
            job=ol.Job(namespace=namespace, name=job.name),
            inputs=_inputs(self._job, outcome),
            outputs=[output],
            producer=PRODUCER,
        )


def dataset_name(path: str) -> tuple[str, str]:
    """Return OpenLineage's namespace and name for a path, such as ("s3://bucket", "table")."""
    # A glob is named by its folder, and a table of a lake by its folder, or by its name in the
    # catalog.
    lake = lake_url(path)
    if lake.kind == "iceberg" and not lake.path.endswith(".metadata.json"):
        catalog, _, name = lake.path.partition("/")
        return f"iceberg://{catalog}", name
    if lake.kind:
        return dataset_name(lake.path.rpartition("/metadata/")[0] or lake.path)
    parts = urlsplit(path) if "://" in path else None
    if parts is None or parts.scheme in ("file", "local"):
        local = os.path.abspath(path.partition("://")[2] if parts else path)
        return "file", _GLOB.sub("", local) or "/"
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    rest = path.partition("://")[2].partition("/")[2]  # urlsplit would end the path at a ?
    name = _GLOB.sub("", f"/{rest}").rstrip("/")
    return f"{scheme}://{parts.netloc}", (
        name.lstrip("/") if scheme in ("s3", "gs") else name
    ) or "/"


def _inputs(job: Job, outcome: RunOutcome | None) -> list[ol.InputDataset]:
    found = [ol.InputDataset(*dataset_name(path)) for path in job.input.path]
    report = outcome.report if outcome else None
    checks = [c for c in report.checks if c.state != "not measured"] if report else []
    if checks:
        facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
            assertions=[
                data_quality_assertions_dataset.Assertion(
                    assertion=check.name,
                    success=check.state == "passed",
                    severity=check.level,
                    description=check.words,
                    expected=" to ".join(f"{one:g}" for one in check.limit),
                    actual=f"{check.found:g}",
                )
                for check in checks
            ],
            producer=PRODUCER,
        )
        # Checks are about all datasets together.
        found[0].inputFacets = {"dataQualityAssertions": facet}
    return found
