"""The failing store of the harness: what each kind of trouble does to a request."""

from concurrent.futures import Future

import pytest
from chaos import results
from chaos.case import KINDS, STORED
from chaos.disturb import DISTURB
from chaos.places import InStore
from chaos.store import SECRET, WHATS, Store, Traffic, Trouble
from obstore import exceptions, put
from obstore.store import S3Store

BUCKET = "bucket"


@pytest.fixture(scope="module")
def store():
    store = Store()
    yield store
    store.close()


@pytest.fixture
def traffic(store, tmp_path):
    traffic = store.make(BUCKET)
    traffic.begin(Trouble(), tmp_path / "log")
    yield traffic
    store.drop(BUCKET)


@pytest.fixture
def client(store, traffic):
    """A client that tries everything once."""
    return S3Store(
        BUCKET,
        endpoint=store.url,
        region="us-east-1",
        access_key_id="chaos",
        secret_access_key=SECRET,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def test_requests_are_forwarded_and_changes_logged(store, traffic, client, tmp_path):
    name = "out/.runs/0123456789ab-01234567/results/label/00000.npz"
    put(client, name, b"one")
    assert bytes(client.get(name).bytes()) == b"one"
    assert client.head(name)["size"] == 3
    with pytest.raises(exceptions.AlreadyExistsError):
        put(client, name, b"two", mode="create")
    client.copy(name, "out/copy")
    client.delete([name])
    changes = results.logged(tmp_path / "log")
    assert [(one.event, one.path) for one in changes] == [
        ("PUT", f"/{name}"),
        ("PUT", "/out/copy"),
        ("POST", "/?delete"),
    ]
    assert results.made(changes) == ["label/00000"]
    assert list(store.keys(BUCKET)) == ["out/copy"]


@pytest.mark.parametrize(
    ("what", "said", "is_done"),
    [
        ("error", "500", False),
        ("slow down", "503", False),
        ("dropped", "error sending request", False),
        ("lost", "error sending request", True),
    ],
)
def test_a_change_meets_what_is_asked_for_once(store, traffic, client, what, said, is_done):
    traffic.begin(Trouble(at=2, what=what), traffic.log)
    put(client, "first", b"")
    with pytest.raises(exceptions.GenericError, match=said):
        put(client, "second", b"")
    assert ("second" in store.keys(BUCKET)) == is_done
    put(client, "third", b"")
    assert traffic.met == [what]


class Victim:
    """Stands for a driver that ends when it is killed."""

    def __init__(self):
        self.code = Future()

    def send(self, number):
        self.code.set_result(-number)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_driver_is_killed_at_a_change(store, traffic, client, when):
    traffic.begin(Trouble(at=1, what=f"kill {when}"), traffic.log)
    victim = Victim()
    traffic.victim.set_result(victim)
    with pytest.raises(exceptions.GenericError):
        put(client, "commit", b"")
    assert victim.code.result(0) == -9
    assert ("commit" in store.keys(BUCKET)) == (when == "after")


def test_nothing_is_answered_by_a_store_that_is_gone(store, traffic, client):
    traffic.begin(Trouble(at=2, what="gone"), traffic.log)
    put(client, "first", b"")
    for _ in range(2):
        with pytest.raises(exceptions.GenericError):
            put(client, "second", b"")
    with pytest.raises(exceptions.GenericError):
        client.get("first")
    assert list(store.keys(BUCKET)) == ["first"]


def test_trouble_follows_from_the_seed(tmp_path):
    def met(seed, changing):
        traffic = Traffic()
        traffic.begin(Trouble(seed=seed, rate=0.2), tmp_path / "log")
        return [traffic.meets(changing=changing) for _ in range(200)]

    assert met(1, True) == met(1, True) != met(2, True)
    assert set(met(1, True)) == {"", *WHATS}
    assert 20 < sum(map(bool, met(1, True))) < 60
    assert "lost" not in met(1, False), "there is nothing to lose"


def test_a_bucket_is_copied_to_the_folder_where_it_is_judged(store, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").touch()
    place = InStore(tmp_path, store, BUCKET)
    place.watch(tmp_path / "log", {})
    options = {"access_key_id": "chaos", "secret_access_key": SECRET, "endpoint": store.url}
    client = S3Store(BUCKET, region="us-east-1", client_options={"allow_http": True}, **options)
    put(client, "out/labels/new", b"1")
    client.delete(["out/old"])
    assert place.look() == []
    files = {path.name for path in (tmp_path / "out").rglob("*")}
    assert files == {"labels", "new"}
    client.delete(["out/labels/new"])
    put(client, "out/model", f"key: {SECRET}".encode())
    assert place.look() == ["the store's key is in out/model"]
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["model"]
    place.close()
    assert BUCKET not in store.traffic


def test_every_kind_of_disturbance_is_known():
    assert set(KINDS) | set(STORED) == set(DISTURB)
