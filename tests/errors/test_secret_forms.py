"""No form in which a secret can stand in a URL or beside it is shown."""

import pytest

from distsvc.errors import urls
from distsvc.errors.urls import masked, shown_url

S = "s3cr3tpl4nted"

URLS = [
    # a user and a password
    f"https://me:{S}@host/x",
    f"https://{S}@host/x",
    f"https://me:a {S}@host/x",
    f"https://my name:{S}@host/x",
    f"https://me:{S} b@host/x",
    f"https://me:{S}/b@host/x",
    f"https://me:a@{S}@host/x",
    f"https://:{S}@host/x",
    f"ftp://me:{S}@host:21/x",
    f"sftp://me:{S}@host/x",
    f"hdfs://me:{S}@host:8020/x",
    f"s3://KEY:{S}@bucket/x",
    f"s3://KEY:a/{S}@bucket/x",
    f"abfs://me:{S}@box/x",
    f"tcp://me:{S}@host:8786",
    f"tls://me:{S}@host:8786",
    f"ucx://me:{S}@host:8786",
    f"tcp://{S}@10.0.0.5:8786",
    f"ws://me:{S}@host:8786/x",
    f"simplecache::https://me:{S}@host/x",
    f"zip://a.csv::https://me:{S}@host/x.zip",
    f"filecache://me:{S}@c::https://host/x",
    # a query
    f"https://host/x?X-Amz-Signature={S}",
    f"https://host/x?a=1&sig={S}",
    f"https://host/x?{S}",
    f"https://host/my file.csv?sig={S}",
    f"https://host/my file.csv?a=1&sig={S}",
    f"https://host/my file.csv?{S}",
    f"https://host/x?sig={S} and more",
    f"https://host/x?sig=a {S}",
    f"https://host/x?a b={S}",
    f"https://host/x\ty?sig={S}",
    f"https://host/x?sig={S}%20b",
    f"https://host/x?a=/b&sig={S}",
    f"https://host/x?next=https://other/?sig={S}",
    f"gs://bucket/x?token={S}",
    f"az://box/my file?sv=1&sig={S}",
    f"simplecache::https://host/my file?sig={S}",
    f"delta://https://host/t?sig={S}",
    # matrix parameters and fragments
    f"https://host/x;token={S}",
    f"https://host/x;{S}",
    f"https://host/a;token={S}/b.csv",
    f"https://host/x;a=1;token={S}?v=1",
    f"https://host/my file;token={S}",
    f"https://host/x#{S}",
    f"https://host/x#access_token={S}",
    f"https://host/x?a=1#token={S}",
    f"https://host/my file#token={S}",
    f"https://host/my file#{S}",
    f"s3://bucket/x;token={S}",
    f"s3://bucket/x#token={S}",
    f"memory://x#token={S}",
]

TEXTS = [
    f"https%3A%2F%2Fme%3A{S}%40host%2Fx",
    f"next=https%3a%2f%2fhost%2fx%3fsig%3d{S}",
    f"first https://a/x?sig={S}, then https://me:{S}@b/y; last tcp://me:{S}@c:1",
    f"Max retries exceeded with url: /x?a=1&X-Amz-Signature={S} (Caused by NewConnectionError)",
    f"distsvc run job.toml --set 'input.path=https://host/my file?sig={S}' --overwrite",
    f"distsvc run job.toml --scheduler me:{S}@host:8786",
    f"distsvc backfill job.toml --scheduler={S}@host:8786",
    f"{{'s3.secret-access-key': '{S}', 's3.region': 'eu'}}",
    f"{{'uri': 'https://me:{S}@catalog/x', 'token': '{S}'}}",
    f"AZURE_STORAGE_ACCOUNT_KEY={S}",
    f"aws_session_token={S}",
    f'"credential": "{S}"',
]


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    """The form alone must tell, for a secret that was shown before is known by its letters."""
    monkeypatch.setattr(urls, "_known", {})
    monkeypatch.setattr(urls, "_keep", lambda secret: None)


@pytest.mark.parametrize("url", URLS)
def test_a_url(url):
    assert S not in shown_url(url)
    assert shown_url(shown_url(url)) == shown_url(url)


@pytest.mark.parametrize("text", URLS + TEXTS)
def test_in_a_text(text):
    for around in ("{}", "can't read {}: gone", "GET '{}', then", 'url="{}")', "--set 'a={}' -x"):
        shown = masked(around.format(text))
        assert S not in shown
        assert masked(shown) == shown


def test_words_after_what_is_shown_stay():
    for text in (
        "https://host/x?sig=*** does not exist",
        "can't reach tcp://host:8786; ask somebody@example.org",
        "no permission to read s3://bucket/part-?.parquet; credentials come from the environment",
        "the credentials are refused; a secret: none; token",
    ):
        assert masked(text) == text
