"""A server of S3 on loopback, which can lose answers and refuse requests."""

import http.client
import http.server
import logging
import os
import random
import sys
import threading
import urllib.request
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from unittest import mock

from distsvc.storage.places import remote

BUCKET = "bucket"
SETTINGS = {
    "AWS_ACCESS_KEY_ID": "planted-key",
    "AWS_SECRET_ACCESS_KEY": "planted-secret",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_server():
    """Yield the URL of an empty store, with one bucket; the environment leads there."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with reached(f"http://{host}:{port}") as url:
            client().create_bucket(Bucket=BUCKET)
            yield url
            # All servers of a process have one store: the next is to find it empty.
            urllib.request.urlopen(urllib.request.Request(f"{url}/moto-api/reset", method="POST"))
    finally:
        server.stop()


@contextmanager
def reached(url):
    """Let everything in this process and those it starts find a store at a URL."""
    with mock.patch.dict(os.environ, SETTINGS | {"AWS_ENDPOINT_URL": url}):
        forget_stores()
        try:
            yield url
        finally:
            forget_stores()


def forget_stores():
    """Drop what this process keeps of stores, which may be gone."""
    from distsvc.storage.places import store

    store._opened.cache_clear()
    if "s3fs" in sys.modules:
        sys.modules["s3fs"].S3FileSystem.clear_instance_cache()


def client():
    import boto3

    return boto3.client("s3")


def keys(prefix=""):
    """Return the keys of all objects below a prefix, without it."""
    pages = client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return sorted(
        one["Key"].removeprefix(prefix) for page in pages for one in page.get("Contents", [])
    )


def content(key):
    return client().get_object(Bucket=BUCKET, Key=key)["Body"].read()


class Trouble:
    """What happens to requests on their way: a share of each kind, drawn from a seed.

    ``lost`` answers come after the store has done what was asked; ``dropped`` requests never reach
    it; ``busy`` ones are answered 503.
    """

    def __init__(self, seed=0, lost=0.0, dropped=0.0, busy=0.0, methods=("PUT",)):
        self._draw, self._lock = random.Random(seed), threading.Lock()
        self._shares, self._methods = (lost, dropped, busy), methods
        self.counts = dict.fromkeys(("lost", "dropped", "busy"), 0)

    def next(self, method):
        with self._lock:
            drawn = self._draw.random()
            for kind, share in zip(self.counts, self._shares, strict=True):
                if method in self._methods and drawn < share:
                    self.counts[kind] += 1
                    return kind
                drawn -= share
        return None


@contextmanager
def troubled(url, trouble):
    """Yield the URL of a store that is another one, but for its troubles.

    Writes reach it one by one: moto looks whether a condition holds, and then writes, which is not
    one step as it is in S3.
    """
    host, one_by_one = url.removeprefix("http://"), threading.Lock()

    class Proxy(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits for the answer to its header, 40 ms

        def log_message(self, *_args):
            pass

        def handle_any(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            kind = trouble.next(self.command)
            if kind == "dropped":
                self.close_connection = True
                return None
            if kind == "busy":
                return self.answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
            with one_by_one if self.command == "PUT" else nullcontext():
                asked = http.client.HTTPConnection(host, timeout=60)
                asked.request(self.command, self.path, body, dict(self.headers))
                found = asked.getresponse()
                answer = found.read()
            headers = dict(found.getheaders())
            asked.close()
            if kind == "lost":
                self.close_connection = True
                return None
            return self.answer(found.status, headers, answer)

        def answer(self, status, headers, body):
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            size = headers.get("Content-Length", "0") if self.command == "HEAD" else len(body)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with mock.patch.object(remote, "STORE", replace(remote.STORE, first_pause=0.005)):
            yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
