"""The failing store of the harness: what each kind of trouble does to a request."""

from concurrent.futures import Future

import pytest
from chaos.store import SECRET, Store, Trouble
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
