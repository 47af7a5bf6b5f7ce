"""Ids are given once in any history of a lineage; and the harness sees where they are not."""

from unittest import mock

import pytest
from chaos.histories import history

from distsvc.run.nights import continuity
from distsvc.storage.publishing.lineages import Lineage
from tests.s3_server import BUCKET, s3_server

SEEDS = range(16)


def problems(seeds=SEEDS, root=""):
    return [problem for seed in seeds for problem in history(seed, root)["problems"]]


def test_ids_are_given_once():
    assert problems() == []


def test_in_a_bucket():
    with s3_server():
        assert problems(range(2), f"s3://{BUCKET}") == []


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "said"),
    [
        (Lineage, "claim", lambda self, n_ids, least: least, "was given to another cluster"),
        (Lineage, "enter", lambda self: None, "came"),
        (
            continuity, "match_returned",
            lambda ids, wanted, left, *_: {left[0]: continuity.Return(max(wanted), 1.0)},
            "is back, and another cluster",
        ),
    ],
    ids=["without claims", "without the list of runs", "a wrong cluster comes back"],
)  # fmt: skip
def test_what_goes_wrong_is_seen(owner, name, wrong, said):
    with mock.patch.object(owner, name, wrong):
        assert said in "; ".join(problems(range(8)))
