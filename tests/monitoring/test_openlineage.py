"""A run's events for OpenLineage are valid, and no transport makes a run fail."""

import http.server
import json
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager
from importlib import import_module

import pytest

from distsvc.errors import InputNotFoundError, TemporaryError
from distsvc.report.content.parts import CheckPart
from distsvc.run.reporting.files import read_report
from distsvc.storage.publishing.publication import Output
from tests.monitoring.test_announce import run, write_job

client = pytest.importorskip("openlineage.client")

from openlineage.client import event_v2  # noqa: E402
from openlineage.client.facet_v2 import (  # noqa: E402
    data_quality_assertions_dataset,
    error_message_run,
    nominal_time_run,
    output_statistics_output_dataset,
    tags_run,
)

from distsvc.monitoring import openlineage as lineage_events  # noqa: E402
from distsvc.monitoring.openlineage import dataset_name  # noqa: E402

FACETS = {
    "dataQualityAssertions": data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet,
    "errorMessage": error_message_run.ErrorMessageRunFacet,
    "nominalTime": nominal_time_run.NominalTimeRunFacet,
    "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    "tags": tags_run.TagsRunFacet,
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """Remove OpenLineage's variables before and after a test; the client adds some."""
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    yield
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        del os.environ[name]


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr(lineage_events, "SEND_TIMEOUT_S", 60.0)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A job that was run, and its report."""
    folder = tmp_path_factory.mktemp("published")
    job = write_job(folder)
    assert run(job).exit_code == 0
    return job, read_report(Output(f"{folder}/out"))


@contextmanager
def served():
    """Yield a server on loopback, and the list of the events that it receives."""
    events = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server, events
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def configured(monkeypatch, port, **more):
    """Let the client send to a port without retries, which would take seconds."""
    transport = {"type": "http", "url": f"http://127.0.0.1:{port}", "retry": {"total": 0}} | more
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))


def ending(monkeypatch, end):
    """Replace `run_job` by `end`, which returns a report or raises an error."""
    monkeypatch.setattr(import_module("distsvc.run.job"), "run_job", lambda *_, **__: end())


def raised(error):
    raise error


def told(found):
    """Return the warnings of a command."""
    return [line for line in found.stderr.splitlines() if line.startswith("warning: ")]


def check(event):
    """Check an event by converting it to the client's objects, which check required fields."""
    facets = [event["run"]["facets"], event["job"]["facets"]]
    for kind in "input", "output":
        for dataset in event[f"{kind}s"]:
            facets += [dataset["facets"], dataset[f"{kind}Facets"]]
    for name, content in (item for group in facets for item in group.items()):
        url, content = content.pop("_schemaURL"), dict(content)
        producer = content.pop("_producer")
        made = FACETS[name](**content, producer=producer)
        assert made._schemaURL == url
        for assertion in content.get("assertions", []):
            data_quality_assertions_dataset.Assertion(**assertion)
    url, content = event.pop("schemaURL"), dict(event)
    content["run"], content["job"] = event_v2.Run(**event["run"]), event_v2.Job(**event["job"])
    content["inputs"] = [event_v2.InputDataset(**one) for one in event["inputs"]]
    content["outputs"] = [event_v2.OutputDataset(**one) for one in event["outputs"]]
    content["eventType"] = event_v2.RunState(event["eventType"])
    assert event_v2.RunEvent(**content).schemaURL == url


def test_events_of_a_published_run(published, monkeypatch, patient):
    job, _ = published
    with served() as (server, events):
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "nights")
        found = run(job, "--run-date", "2026-11-20")
    assert (found.exit_code, told(found)) == (0, []), found.output
    first, last = events
    for event in events:
        check(event)
        assert event["job"]["namespace"] == "nights"
        assert event["job"]["name"] == "shop"
        assert event["inputs"][0]["namespace"] == event["outputs"][0]["namespace"] == "file"
        assert event["inputs"][0]["name"] == f"{job.parent}/in.parquet"
        assert event["outputs"][0]["name"] == f"{job.parent}/out"
        times = event["run"]["facets"]["nominalTime"]
        assert times["nominalStartTime"] == "2026-11-20T00:00:00+00:00"
        assert times["nominalEndTime"] == "2026-11-21T00:00:00+00:00"
    assert (first["eventType"], last["eventType"]) == ("START", "COMPLETE")
    assert first["run"]["runId"] == last["run"]["runId"]
    assert first["eventTime"] <= last["eventTime"]
    assert last["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 90


def test_events_have_the_checks_that_were_measured(published, monkeypatch, patient):
    job, report = published
    checks = [
        CheckPart(name=name, level=level, limit=limit, found=value, state=state, words=name)
        for name, level, limit, value, state in (
            ("min_rows", "error", [10.0], 90.0, "passed"),
            ("clusters", "warn", [3.0, 9.0], 2.0, "warned"),
            ("max_drift", "error", [0.25], None, "not measured"),
        )
    ]
    ending(monkeypatch, lambda: report.model_copy(update={"checks": checks}))
    with served() as (server, events):
        configured(monkeypatch, server.server_port)
        assert run(job).exit_code == 0
    check(events[1])
    facet = events[1]["inputs"][0]["inputFacets"]["dataQualityAssertions"]
    assert [(one["assertion"], one["success"], one["severity"]) for one in facet["assertions"]] == [
        ("min_rows", True, "error"),
        ("clusters", False, "warn"),
    ]
    assert facet["assertions"][1]["expected"] == "3 to 9"


def test_events_of_held_and_failed_runs(tmp_path, monkeypatch, patient):
    job = write_job(tmp_path, checks={"min_rows": 91})
    with served() as (server, events):
        configured(monkeypatch, server.server_port)
        found = run(job)
        assert (found.exit_code, told(found)) == (76, []), found.output
        ending(monkeypatch, lambda: raised(InputNotFoundError("s3://bucket/x does not exist")))
        assert run(job, "--set", "input.path=s3://bucket/x").exit_code == 66
    assert [event["eventType"] for event in events] == ["START", "FAIL"] * 2
    assert events[0]["run"]["runId"] != events[2]["run"]["runId"]
    for event in events:
        check(event)
    held, missing = events[1], events[3]
    assert held["run"]["facets"]["errorMessage"]["message"].endswith("--held " + held_name(held))
    [assertion] = held["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (assertion["assertion"], assertion["success"]) == ("min_rows", False)
    assert held["outputs"][0]["outputFacets"] == {}
    message = missing["run"]["facets"]["errorMessage"]["message"]
    assert message == "s3://bucket/x does not exist"
    assert missing["inputs"][0] | {"namespace": "s3://bucket", "name": "x"} == missing["inputs"][0]


def held_name(event):
    return event["run"]["facets"]["errorMessage"]["message"].split()[1]


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_server_that_dies_midway(published, monkeypatch, patient, succeeds):
    job, report = published
    with served() as (server, events):
        configured(monkeypatch, server.server_port)

        def end():
            while not events:
                time.sleep(0.01)
            server.shutdown()
            server.socket.close()
            return report if succeeds else raised(TemporaryError("no workers"))

        ending(monkeypatch, end)
        found = run(job)
    assert found.exit_code == (0 if succeeds else 75)
    [event] = events
    check(event)
    assert event["eventType"] == "START"
    [warning] = told(found)
    assert warning.startswith("warning: OpenLineage: an event was not sent: ")


def test_a_server_that_does_not_answer(published, monkeypatch):
    job, report = published
    monkeypatch.setattr(lineage_events, "SEND_TIMEOUT_S", 0.01)
    ending(monkeypatch, lambda: report)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        configured(monkeypatch, silent.getsockname()[1], timeout=1.0)
        found = run(job)
    assert found.exit_code == 0
    [warning] = told(found)
    assert "not every event was sent" in warning


@pytest.mark.parametrize("transport", ["no JSON", '{"type": "unknown"}', '{"type": "http"}'])
def test_an_invalid_transport_is_a_warning(published, monkeypatch, patient, transport):
    job, report = published
    ending(monkeypatch, lambda: report)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", transport)
    found = run(job)
    assert found.exit_code == 0
    assert len(told(found)) == 1


def test_a_missing_package_is_a_warning(published, monkeypatch):
    job, report = published
    ending(monkeypatch, lambda: report)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.delitem(sys.modules, "distsvc.monitoring.openlineage")
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    found = run(job)
    assert found.exit_code == 0
    [warning] = told(found)
    assert warning.endswith("pip install 'distsvc[lineage]'")


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OPENLINEAGE_URL": "http://127.0.0.1:9", "OPENLINEAGE_DISABLED": "True"},
        {"OPENLINEAGE_NAMESPACE": "nights"},
        {"OPENLINEAGE_URL": ""},
    ],
)
def test_nothing_is_sent_unless_it_is_configured(published, monkeypatch, variables):
    job, report = published
    ending(monkeypatch, lambda: report)
    monkeypatch.setattr(lineage_events, "Events", lambda _: pytest.fail("not asked for"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = run(job)
    assert (found.exit_code, told(found)) == (0, [])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/in.parquet", ("file", "/data/in.parquet")),
        ("/data/day=1/*.parquet", ("file", "/data/day=1")),
        ("/data/year=*/*", ("file", "/data")),
        ("/*.csv", ("file", "/")),
        ("file:///data/in.csv", ("file", "/data/in.csv")),
        ("s3://bucket/a/b/", ("s3://bucket", "a/b")),
        ("s3a://bucket/a/*.parquet", ("s3://bucket", "a")),
        ("s3://bucket", ("s3://bucket", "/")),
        ("gcs://bucket/a", ("gs://bucket", "a")),
        ("https://host:8080/a/b.csv", ("https://host:8080", "/a/b.csv")),
        ("hdfs://name:8020/a/b", ("hdfs://name:8020", "/a/b")),
        ("delta://s3://bucket/lake/t?version=3", ("s3://bucket", "lake/t")),
        ("delta:///data/t", ("file", "/data/t")),
        ("iceberg://s3://b/w/db/t/metadata/v1.metadata.json", ("s3://b", "w/db/t")),
        ("iceberg://prod/db.t?snapshot=2", ("iceberg://prod", "db.t")),
    ],
)
def test_names_of_datasets(path, expected):
    assert dataset_name(path) == expected


def test_relative_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert dataset_name("data/*.csv") == ("file", f"{tmp_path}/data")
