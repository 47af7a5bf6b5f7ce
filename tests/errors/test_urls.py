"""Secrets in URLs are shown nowhere, and processes that are started here find them again."""

import os
import subprocess
import sys

import pytest

from distsvc.errors import urls
from distsvc.errors.urls import (
    MOST_SECRETS,
    MOST_URLS,
    hand_over,
    is_private,
    lake_url,
    masked,
    masked_argument,
    original,
    remember,
    shown_url,
    stand_in,
    without_user,
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setattr(urls, "_known", {})
    for name in [name for name in os.environ if name.startswith("DISTSVC_PRIVATE_URL_")]:
        monkeypatch.delenv(name)
    yield
    for name in [name for name in os.environ if name.startswith("DISTSVC_PRIVATE_URL_")]:
        del os.environ[name]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("/data/a@b/part-?.parquet", "/data/a@b/part-?.parquet"),
        ("s3://bucket/k=1/part-?.parquet", "s3://bucket/k=1/part-?.parquet"),
        ("https://host:8080/a@2x.csv", "https://host:8080/a@2x.csv"),
        ("https://me:pw@host/x", "https://***@host/x"),
        ("https://token@host/x", "https://***@host/x"),
        ("https://me:p@w@host/x", "https://***@host/x"),
        ("https://me:p/w@host/x", "https://***@host/x"),
        ("https://me:p::w@host/x", "https://***@host/x"),
        ("https://host/x?X-Amz-Signature=abc&a=1", "https://host/x?X-Amz-Signature=***&a=***"),
        ("https://host/x?abc", "https://host/x?***"),
        ("s3://KEY:SEC/RET@bucket/x", "s3://***@bucket/x"),
        ("az://box/x?sv=1&sig=abc", "az://box/x?sv=***&sig=***"),
        ("simplecache::https://u:pw@host/x", "simplecache::https://***@host/x"),
        (
            "zip://a.csv::https://u:pw@host/x.zip?sig=abc",
            "zip://a.csv::https://***@host/x.zip?sig=***",
        ),
        ("filecache://a:b@c::https://h/x?s=1", "filecache://***@c::https://h/x?s=***"),
    ],
)
def test_what_is_shown(url, shown):
    assert shown_url(url) == shown
    assert shown_url(shown) == shown
    assert masked(f"can't read {url}: gone") == f"can't read {shown}: gone"
    assert masked(f"GET '{url}', then") == f"GET '{shown}', then"


def test_text_without_urls_stays_as_it_is():
    assert masked("a: b@c?d=e :: f") == "a: b@c?d=e :: f"


def test_the_password_is_taken_out_and_the_query_stays():
    url = "simplecache::https://u:pw@host/x?v=1"
    assert without_user(url) == "simplecache::https://host/x?v=1"
    assert without_user("https://u:p/w@host/x") == "https://host/x"


def test_another_process_is_handed_the_secrets_of_stand_ins(monkeypatch):
    urls = [
        "https://host/a?sig=1",
        "https://host/a?sig=2",
        "https://host/open",
        "delta://https://u:p@host/lake",
    ]
    pinned = "delta://https://u:p@host/lake?version=3"
    names = [stand_in(url) for url in [*urls, pinned]]
    for name in names[:2] + names[3:]:
        monkeypatch.delenv(f"DISTSVC_PRIVATE_URL_{name.rpartition('#***')[2]}")
    hand_over([*names, names[0], "a text"], urls)
    assert [original(name) for name in names] == [*urls, pinned]
    stranger = "https://other/a?sig=***#***0123456789abcdef"
    hand_over([stranger], urls)
    with pytest.raises(LookupError):
        original(stranger)


def test_a_stand_in_is_found_again_here_and_in_processes_started_here():
    url = "https://u:pw@host/x?sig=s3kr3t"
    name = stand_in(url)
    assert is_private(name)
    assert "pw" not in name
    assert "s3kr3t" not in name
    assert shown_url(name) == shown_url(url)
    assert stand_in(url) == stand_in(name) == name
    assert stand_in("https://u:other@host/x?sig=s3kr3t") != name
    code = "import sys; from distsvc.errors.urls import original; print(original(sys.argv[1]))"
    arguments = [sys.executable, "-c", code, name]
    assert subprocess.check_output(arguments, text=True).strip() == url == original(name)
    elsewhere = {k: v for k, v in os.environ.items() if not k.startswith("DISTSVC_PRIVATE_URL_")}
    found = subprocess.run(arguments, env=elsewhere, capture_output=True, text=True)
    assert "LookupError: the secrets of https://***@host/x?sig=*** are not in" in found.stderr


def test_what_holds_no_secret_stands_for_itself():
    for url in ("/a/b", "s3://bucket/x", "https://host/x"):
        assert stand_in(url) == original(url) == url
        assert not is_private(url)


def test_few_are_kept():
    names = [stand_in(f"https://u:{k}@host/x") for k in range(MOST_URLS + 3)]
    assert original(names[-1]) == f"https://u:{MOST_URLS + 2}@host/x"
    assert original(names[3]) == "https://u:3@host/x"
    with pytest.raises(LookupError):
        original(names[2])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("delta:///data/t?version=3", "delta:///data/t?version=3"),
        ("delta://s3://key:word@b/t?version=3", "delta://s3://***@b/t?version=3"),
        ("iceberg://prod/db.t?snapshot=12", "iceberg://prod/db.t?snapshot=12"),
        ("delta://https://h/t?sig=abc", "delta://https://h/t?sig=***"),
    ],
)
def test_what_state_of_a_table_is_asked_for_is_no_secret(url, shown):
    assert shown_url(url) == shown
    assert lake_url(url).around(lake_url(url).path) == url


SECRET = "Pl4nted/S3cret+x="
"""As keys of S3 look, with letters that URLs encode."""

BARE = "".join(letter for letter in SECRET if letter.isalnum())
SCHEMES = "http", "https", "s3", "delta://https", "simplecache::https", "filecache::s3"
FORMS = [
    form.format(scheme)
    for form in (
        "{}://me:SECRET@host/x",
        "{}://SECRET@host/x",
        "{}://me:SECRET@host/my file.parquet",
        "{}://me:pass SECRET word@host/x",
        "{}://host/x?sig=SECRET",
        "{}://host/my file.parquet?sig=SECRET&se=2026",
        "{}://host/x#access_token=SECRET",
        "{}://host/a;token=SECRET/x",
        "{}://host/a b;token=SECRET?v=1#sig=SECRET",
    )
    for scheme in SCHEMES
] + [
    "tcp://user:SECRET@10.0.0.5:8786",
    "tls://SECRET@10.0.0.5:8786",
    "ws://user:SECRET@scheduler/dask ws",
    "az://box@account/x?sv=1&sig=SECRET",
    "abfs://box/x?sp=r&se=SECRET&sig=SECRET",
    "iceberg://https://user:SECRET@catalog/db.table",
]
"""URLs with a secret in them: schemes and chains, white space, fragments, matrix parameters."""

TEXTS = (
    "can't read {}: gone",
    "GET '{}', then",
    'found "{}"',
    "distsvc run {} --json",
    "{}\n{}",
    "[{}, /data/x]",
)


def test_there_are_sixty_forms():
    assert len(set(FORMS)) >= 60


@pytest.mark.parametrize("secret", [BARE, SECRET.replace("/", "%2F")])
def test_no_form_of_a_secret_is_in_a_text(secret):
    for form in FORMS:
        url = form.replace("SECRET", secret)
        shown = shown_url(url)
        assert secret not in shown
        assert shown_url(shown) == shown
        for text in TEXTS:
            assert secret not in masked(text.format(url, url))
        assert secret not in masked_argument(f"--set=input.path={url}")


def test_a_secret_that_was_shown_once_is_known_by_its_letters(monkeypatch):
    secret = SECRET.replace("/", "%2F")
    for form in FORMS:
        monkeypatch.setattr(urls, "_known", {})
        shown_url(form.replace("pass SECRET word", "SECRET").replace("SECRET", secret))
        told = masked(f"401: the key {secret} ({SECRET}) is wrong")
        assert secret not in told, form
        assert SECRET not in told, form


def test_a_text_shows_no_secret_of_a_url_that_it_alone_has(monkeypatch):
    for form in FORMS:
        url = form.replace("SECRET", BARE)
        for text in TEXTS[1:3] if " " in url else TEXTS:
            monkeypatch.setattr(urls, "_known", {})
            assert BARE not in masked(text.format(url, url))


def test_a_quoted_url_ends_with_its_quote():
    told = masked(f"distsvc run 'http://h/my file?sig={BARE}' --label 'kind of x'")
    assert told == "distsvc run 'http://h/my file?sig=***' --label 'kind of x'"


def test_the_address_of_a_scheduler_needs_no_protocol():
    remember(f"user:{BARE}@10.0.0.5:8786")
    assert masked(f"no answer from user:{BARE}@10.0.0.5:8786") == (
        "no answer from user:***@10.0.0.5:8786"
    )


def test_keys_of_the_environment_are_masked(monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__S3__SECRET_ACCESS_KEY", BARE)
    assert masked(f"signed with {BARE}") == "signed with ***"


def test_a_plain_word_or_number_is_not_taken_for_a_secret():
    shown_url("https://h/x?format=parquet&day=20261123&v=1")
    text = "read as parquet, version 1 of 20261123"
    assert masked(text) == text


def test_few_secrets_are_known():
    for number in range(MOST_SECRETS + 10):
        shown_url(f"https://h/x?sig=S3cret{number:05d}")
    assert masked("S3cret00001") == "S3cret00001"
    assert masked(f"S3cret{MOST_SECRETS + 9:05d}") == "***"
    assert len(urls._known) == MOST_SECRETS
