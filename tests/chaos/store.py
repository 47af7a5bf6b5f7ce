"""An object store that fails: moto's server on loopback, and a proxy in front of it.

Drivers talk to the proxy. What each bucket suffers is drawn from a seed: errors, dropped
connections, and answers that are lost although the store has done what it was asked. The harness
itself talks to the server behind it.
"""

import http.client
import logging
import random
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

SECRET = "planted0secret0of0the0store"
"""The key of the drivers, which must be found nowhere."""
CHANGING = ("PUT", "POST", "DELETE")
ANSWERS = {"error": (500, "InternalError"), "slow down": (503, "SlowDown")}
WHATS = (*ANSWERS, "dropped", "lost")
"""What a request meets: an answer, no answer and nothing done, or no answer although it is done."""
HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


@dataclass(frozen=True)
class Trouble:
    """What the requests of a bucket meet.

    Of all requests, the share `rate` meets one of `whats`, which are of `WHATS`; answers are
    only lost of what changes something. At the change with the number `at`, from 1, `what`
    happens once: one of `WHATS`; ``kill before`` and ``kill after``, which end the driver
    before or after it is done; ``gone``, after which no request is answered any more.
    """

    seed: int = 0
    rate: float = 0.0
    whats: tuple[str, ...] = WHATS
    at: int | None = None
    what: str = ""


@dataclass
class Traffic:
    """The requests for one bucket.

    The changes that are done are written to `log`, if any, as `results.logged` reads them.
    `victim` is the driver that a kill is meant for.
    """

    trouble: Trouble = field(default_factory=Trouble)
    log: Path | None = None
    victim: Future = field(default_factory=Future)
    n_requests: int = 0
    n_changes: int = 0
    met: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, trouble: Trouble, log: Path) -> None:
        """Have other trouble from now on, for another driver, and another log."""
        with self.lock:
            self.trouble, self.log, self.victim = trouble, log, Future()
            self.n_requests = self.n_changes = 0

    def meets(self, *, changing: bool) -> str:
        """Count a request, and return what it meets; empty for nothing."""
        with self.lock:
            trouble = self.trouble
            self.n_requests += 1
            self.n_changes += changing
            draw = random.Random(f"{trouble.seed} {self.n_requests}")
            what = draw.choice(trouble.whats) if draw.random() < trouble.rate else ""
            if what == "lost" and not changing:
                what = "dropped"
            if changing and self.n_changes == trouble.at:
                what = trouble.what
            if trouble.what == "gone" and trouble.at and self.n_changes >= trouble.at:
                what = "dropped"
            if what:
                self.met.append(what)
            return what

    def done(self, method: str, path: str) -> None:
        """Log a change that the store has made."""
        with self.lock:
            if self.log is not None:
                with open(self.log, "a") as log:
                    log.write(f"{time.monotonic():.4f} {method} {path}\n")

    def kill(self) -> None:
        """End the driver, and wait until it is."""
        started = self.victim.result(10)
        started.send(9)
        started.code.result(10)


class Store:
    """A server and its proxy; close it at the end."""

    def __init__(self):
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self.behind = self._server.get_host_and_port()
        self.traffic: dict[str, Traffic] = {}
        self.writing = threading.Lock()  # moto looks at a condition, and then writes: not one step
        self._proxy = _Proxy(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._proxy.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._proxy.server_port}"
        self._client = self._connected()

    def _connected(self):
        import boto3
        from botocore.config import Config

        host, port = self.behind
        return boto3.client(
            "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
            aws_access_key_id="harness", aws_secret_access_key="harness",
            config=Config(max_pool_connections=20),
        )  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Return the variables with which a driver finds the store."""
        return {
            "AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": "chaos", "AWS_REGION": "us-east-1",
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true", "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip

    def behind_url(self, output: str) -> str:
        """Return the URL of an output for who reads it past the proxy."""
        host, port = self.behind
        return output.replace("s3:/", f"http://{host}:{port}", 1)

    def make(self, bucket: str) -> Traffic:
        """Make an empty bucket."""
        self.drop(bucket)
        self._client.create_bucket(Bucket=bucket)
        found = self.traffic[bucket] = Traffic()
        return found

    def drop(self, bucket: str) -> None:
        """Remove a bucket, if it is there."""
        if self.traffic.pop(bucket, None) is not None:
            for key in self.keys(bucket):
                self._client.delete_object(Bucket=bucket, Key=key)
            self._client.delete_bucket(Bucket=bucket)

    def keys(self, bucket: str) -> dict[str, str]:
        """Return the objects of a bucket and their ETags, by key."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return {one["Key"]: one["ETag"] for page in pages for one in page.get("Contents", [])}

    def upload(self, folder: Path, bucket: str, prefix: str) -> None:
        """Make an object of every file below a folder."""
        for path in folder.rglob("*"):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(folder).as_posix()}"
                self._client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())

    def fetch(self, bucket: str, folder: Path, known: dict[str, str]) -> dict[str, str]:
        """Copy a bucket into a folder that has copies of `known`; return what it has now."""
        found = self.keys(bucket)
        for key in known.keys() - found.keys():
            (folder / key).unlink(missing_ok=True)
        for key, tag in found.items():
            if known.get(key) == tag:
                continue
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                path.write_bytes(self._client.get_object(Bucket=bucket, Key=key)["Body"].read())
            except self._client.exceptions.NoSuchKey:
                path.unlink(missing_ok=True)
        below = {folder / key.partition("/")[0] for key in known.keys() | found.keys()}
        inner = [path for top in below for path in top.rglob("*") if path.is_dir()]
        for path in sorted([*below, *inner], reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        return found

    def close(self) -> None:
        """End the proxy and the server."""
        self._proxy.shutdown()
        self._proxy.server_close()
        self._server.stop()


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Say nothing of connections that a killed driver leaves."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(store: Store) -> type[BaseHTTPRequestHandler]:
    """Return a handler of requests that forwards them to a store."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format, *args):
            pass

        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
            traffic = store.traffic.get(bucket) or Traffic()
            what = traffic.meets(changing=self.command in CHANGING)
            if what == "kill before":
                traffic.kill()
            if what in ("dropped", "gone", "kill before"):
                self.close_connection = True
                return
            if what in ANSWERS:
                status, name = ANSWERS[what]
                text = f"<Error><Code>{name}</Code><Message>as drawn</Message></Error>".encode()
                self.answer(status, [("Content-Type", "application/xml")], text)
                return
            with store.writing if self.command == "PUT" else nullcontext():
                status, headers, answer = self.asked(body)
            if self.command in CHANGING and status < 300 and "partNumber" not in parts.query:
                traffic.done(self.command, f"/{key}{'?' if parts.query else ''}{parts.query}")
            if what == "kill after":
                traffic.kill()
            if what in ("lost", "kill after"):
                self.close_connection = True
                return
            self.answer(status, headers, answer)

        def asked(self, body):
            connection = http.client.HTTPConnection(*store.behind, timeout=60)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
            connection.request(self.command, self.path, body, headers)
            found = connection.getresponse()
            answer = found.read()
            connection.close()
            return found.status, found.getheaders(), answer

        def answer(self, status, headers, body):
            given = [(k, v) for k, v in headers if k.lower() not in HOP]
            lengths = [v for k, v in headers if k.lower() == "content-length"]
            length = lengths[0] if self.command == "HEAD" and lengths else str(len(body))
            self.send_response_only(status)
            for name, value in [*given, ("Content-Length", length)]:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815

    return Handler
