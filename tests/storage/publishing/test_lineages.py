"""Ids are claimed in a record that all runs of a lineage share."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from distsvc.errors import DataError
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.lineages import LINEAGES, Lineage, later_runs
from distsvc.storage.publishing.manifest import Manifest, read_manifest

PLAIN = {"job_sha256": "a" * 64, "input_sha256": "b" * 64, "rows": 0, "clusters": 0, "files": []}


def published(out, run_id, lineage=None):
    """Publish a run without files at an address; return its manifest."""
    named = {} if lineage is None else {"lineage": lineage.named().model_dump()}
    content = Manifest.model_validate({"format": 2, "run_id": run_id} | PLAIN | named)
    store_of(out).put("manifest.json", content.content())
    return content


def lineage_of(out, run_id, previous=None, answer="", date="", in_place=False):
    before = (store_of(previous).address, read_manifest(store_of(previous))) if previous else None
    known = run_id, answer or run_id, store_of(out).address, date
    return Lineage.of(known, before, in_place)


def test_runs_with_one_previous_run_have_different_ids(tmp_path):
    root = lineage_of(tmp_path / "1", "one")
    assert root.claim(3, 0) == 0
    published(tmp_path / "1", "one", root)
    one, other = (lineage_of(tmp_path / name, name, tmp_path / "1") for name in ("2", "late"))
    assert one.claim(2, 3) == 3
    assert other.claim(1, 3) == 5
    published(tmp_path / "2", "2", one)
    assert lineage_of(tmp_path / "3", "3", tmp_path / "2").claim(1, 5) == 6


def test_the_same_answer_has_the_same_ids(tmp_path):
    published(tmp_path / "1", "one")
    first = lineage_of(tmp_path / "2", "a", tmp_path / "1", answer="same").claim(2, 7)
    assert lineage_of(tmp_path / "3", "b", tmp_path / "1", answer="other").claim(1, 7) == 9
    again = lineage_of(tmp_path / "2", "c", tmp_path / "1", answer="same")
    assert (first, again.claim(2, 7)) == (7, 7)
    assert again.claim(3, 7) == 10, "another number of them can't be the same"


def test_two_at_once(tmp_path):
    published(tmp_path / "1", "one")
    several = [lineage_of(tmp_path / f"o{n}", f"o{n}", tmp_path / "1") for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        first = list(pool.map(lambda one: one.claim(2, 4), several))
    assert sorted(first) == list(range(4, 36, 2))


def test_the_record_is_found_where_outputs_were_moved_to(tmp_path):
    for name in "1", "2":
        before = tmp_path / "here" / "1" if name == "2" else None
        one = lineage_of(tmp_path / "here" / name, f"run-{name}", before)
        assert one.claim(1, 0) == int(name) - 1
        published(tmp_path / "here" / name, f"run-{name}", one)
    (tmp_path / "here").rename(tmp_path / "there")
    late = lineage_of(tmp_path / "there" / "late", "late", tmp_path / "there" / "1")
    assert late.claim(1, 1) == 2
    assert (tmp_path / "there" / LINEAGES / "run-1.json").exists()
    assert not (tmp_path / "here").exists()


def test_runs_that_replace_each_other_have_it_in_their_output(tmp_path):
    out = tmp_path / "out"
    root = lineage_of(out, "one", in_place=True)
    root.enter()
    published(out, "one", root)
    assert (out / LINEAGES / "one.json").exists()
    assert lineage_of(out, "two", out, in_place=True).named() == root.named()


def test_later_runs_of_all_generations(tmp_path):
    before = None
    for name in "1", "2", "3", "4":
        one = lineage_of(tmp_path / name, f"run-{name}", before, date=f"2026-01-0{name}")
        one.enter()
        before = tmp_path / name
        published(before, f"run-{name}", one)
    lineage_of(tmp_path / "5", "not-published", before).enter()
    published(tmp_path / "4", "another")
    here = tmp_path / "2"
    found = later_runs(str(here), read_manifest(store_of(here)))
    assert [(at, one.run_date) for at, one in found] == [(str(tmp_path / "3"), "2026-01-03")]
    assert later_runs(str(here), published(here, "alone")) == []


def test_a_damaged_record_is_named(tmp_path):
    published(tmp_path / "1", "one")
    one = lineage_of(tmp_path / "2", "two", tmp_path / "1")
    one.claim(1, 0)
    path = tmp_path / LINEAGES / "one.json"
    path.write_text(path.read_text().replace("two", "six"))
    with pytest.raises(
        DataError, match=r"one\.json.*if you remove the file, cluster ids continue from"
    ):
        one.claim(1, 0)
    path.unlink()
    assert one.claim(1, 4) == 4
    assert "two" in json.loads(path.read_text())["claims"]
