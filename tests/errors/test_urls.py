"""URLs that carry a user, a password or a query are refused, and their secrets are not shown."""

import json

import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import JobFileError
from distsvc.errors.urls import bare_text, bare_url, checked_url, lake_url
from tests.small_runs import forget

CARRYING = {
    "https://me:S3CRET@host/x": ("https://host/x", "FSSPEC_HTTP"),
    "https://S3CRET@host/x": ("https://host/x", "FSSPEC_HTTP"),
    "https://me:S3C@RET@host/x": ("https://host/x", "FSSPEC_HTTP"),
    "https://me:S3C/RET@host/x": ("https://host/x", "FSSPEC_HTTP"),
    "https://host/x?X-Amz-Signature=S3CRET": ("https://host/x", "its URL is signed"),
    "https://host/my files/x?S3CRET": ("https://host/my files/x", "FSSPEC_HTTP"),
    "https://host/a;token=S3CRET/x": ("https://host/a", "FSSPEC_HTTP"),
    "https://host/x#token=S3CRET": ("https://host/x", "FSSPEC_HTTP"),
    "s3://KEY:S3C/RET@bucket/x": ("s3://bucket/x", "AWS_ACCESS_KEY_ID"),
    "s3://bucket/x?versionId=S3CRET": ("s3://bucket/x", "AWS_ACCESS_KEY_ID"),
    "sftp://me:S3CRET@host/x": ("sftp://host/x", "FSSPEC_SFTP"),
    "tcp://me:S3CRET@host:8786": ("tcp://host:8786", "distributed.comm.tls"),
    "simplecache::https://u:S3CRET@host/x": ("simplecache::https://host/x", "FSSPEC_HTTP"),
    "zip://a.csv::https://host/x.zip?sig=S3CRET": ("zip://a.csv::https://host/x.zip", "FSSPEC_H"),
    "delta://s3://KEY:S3CRET@bucket/t?version=3": ("s3://bucket/t", "AWS_ACCESS_KEY_ID"),
}
PLAIN = [
    "/data/a@b/part-?.parquet", "x?token=1", "s3://bucket/k=1/part-?.parquet",
    "https://host:8080/a@2x.csv", "delta://s3://bucket/t?version=3", "iceberg://shop.t?snapshot=7",
    "zip://a.csv::file:///b.zip", "file:///a#b;c.csv", "tcp://127.0.0.1:8786",
]  # fmt: skip


@pytest.mark.parametrize("url", CARRYING)
def test_a_url_that_carries_something_is_refused(url):
    shown, setting = CARRYING[url]
    with pytest.raises(JobFileError) as found:
        checked_url(url)
    assert str(found.value).startswith(f"{shown}: expected a URL without user")
    assert setting in str(found.value)
    assert "S3C" not in str(found.value)


@pytest.mark.parametrize("url", PLAIN)
def test_other_paths_and_urls_are_taken(url):
    assert checked_url(url) == url


WAYS = {
    "table": (["run", "{url}", "--out", "out"], 78),
    "setting": (["run", "job.toml", "--set", "input.path={url}"], 78),
    "output": (["run", "t.csv", "--out", "{url}"], 78),
    "scheduler": (["run", "t.csv", "--scheduler", "{url}", "--out", "out"], 78),
    "previous": (["run", "t.csv", "--out", "out", "--continue-from", "{url}"], 78),
    "job file": (["plan", "{url}.toml"], None),
    "init": (["init", "{url}"], 78),
    "status": (["status", "{url}"], 78),
    "predict": (["predict", "{url}", "t.csv", "out"], 78),
    "history": (["history", "{url}"], 78),
    "metrics": (["run", "t.csv", "--out", "out", "--metrics-file", "{url}"], 78),
    "usage": (["status", "out", "{url}"], 2),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_command_shows_or_writes_a_secret(tmp_path, monkeypatch, way):
    forget()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n3,4\n" * 50)
    (tmp_path / "job.toml").write_text('[input]\npath = "t.csv"\n[output]\npath = "out"\n')
    words, code = WAYS[way]
    scheme = "tcp" if way == "scheduler" else "s3"
    url = f"{scheme}://me:S3CRET@127.0.0.1:1/x.csv"
    done = CliRunner().invoke(main, [word.format(url=url) for word in words])
    assert done.exit_code == code if code else done.exit_code in (66, 78), done.output
    assert "S3CRET" not in done.output
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in found if b"S3CRET" in path.read_bytes()]


def test_urls_in_texts_of_libraries_lose_credentials():
    text = "404, url='https://me:pw@host/a?sig=abc', http://b.c/d#e of 'a?b' at s3://x/y"
    assert bare_text(text) == "404, url='https://host/a', http://b.c/d of 'a?b' at s3://x/y"
    assert bare_text("no URL: a@b?c=d") == "no URL: a@b?c=d"
    assert json.loads(bare_text('{"url": "https://u:p@h/x"}')) == {"url": "https://h/x"}


def test_parts_of_urls():
    assert lake_url("delta://s3://b/t?version=3") == ("delta", "s3://b/t", "version=3")
    assert lake_url("delta://t?version=3").around("u") == "delta://u?version=3"
    assert lake_url("iceberg://shop.t?snapshot=7") == ("iceberg", "shop.t", "snapshot=7")
    assert lake_url("/a/b?version=3") == ("", "/a/b?version=3", "")
    assert bare_url("/a@b/c?d=e") == "/a@b/c?d=e"
