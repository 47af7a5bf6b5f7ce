import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.kernels.texts import hash_texts
from tests import reference


@reference.forms(hash_texts)
def test_twin_hash_texts(form):
    @settings(deadline=None, max_examples=100)
    @given(st.lists(st.binary(max_size=9), max_size=5), st.binary(max_size=3))
    def check(texts, before):
        data = np.array(list(before + b"".join(texts)), np.uint8)
        ends = np.cumsum([len(before), *map(len, texts)])
        hashes = np.empty(len(texts), np.uint64)
        with np.errstate(over="ignore"):
            form(data, ends, hashes)
        assert hashes.tolist() == [reference.fnv_1a(text) for text in texts]

    check()


def test_published_values():
    data = np.array(list(b"foobar"), np.uint8)
    hashes = np.empty(2, np.uint64)
    hash_texts(data, np.array([0, 0, 6]), hashes)
    assert [hex(one) for one in hashes.tolist()] == ["0xcbf29ce484222325", "0x85944171f73967e8"]
