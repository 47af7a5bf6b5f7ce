"""The facts of the data sets are whole, agree with each other and can be found by name."""

import importlib.resources
import math
import tomllib

import pytest

from benchmarks.datasets.catalogue import _dataset, catalogue, find
from distsvc.errors import DataError, InputNotFoundError

SETS = catalogue()


@pytest.mark.parametrize("name", SETS)
def test_the_facts_of_a_set_agree(name):
    one = SETS[name]
    assert one.name == name
    assert (name.partition("/")[0] == one.group) == (one.group in ("outliers", "linear"))
    assert one.group in {
        "bsgd",
        "imdh",
        "shapes",
        "shapes2",
        "tables",
        "vectors",
        "outliers",
        "linear",
    }
    assert sum(one.class_counts) == one.rows
    assert min(one.class_counts) > 0
    assert len(one.class_names) in {0, len(one.class_counts)}
    if one.splits:
        assert tuple(map(sum, zip(*one.splits, strict=True))) == one.class_counts
    assert (one.fingerprint is None) == (one.group == "linear")
    assert set(one.paper_split) <= set(one.used_by)
    assert set(one.printed) <= set(one.used_by)
    assert not (one.stands_for and one.used_by)
    assert not (one.sklearn and one.openml)
    assert one.origin.endswith(".")


@pytest.mark.parametrize("name", [name for name, one in SETS.items() if one.openml])
def test_the_encoding_of_a_set_names_its_columns_and_classes(name):
    one = SETS[name]
    columns = {f"f{j}" for j in range(one.features)}
    assert set(one.openml.order) | set(one.openml.missing) <= columns
    assert all(
        len(set(names)) == len(names) > 1 or name == "mushroom"
        for names in one.openml.order.values()
    )
    assert len(one.openml.classes) in {0, len(one.class_counts)}
    assert one.source == f"OpenML {one.openml.id}, {one.openml.title}"


def test_sets_of_one_name_are_told_apart():
    assert (find("musk").rows, find("outliers/musk").rows) == (6598, 3062)
    assert find("bsgd/musk") is find("musk")
    assert (find("mnist").file, find("outliers/mnist").file) == (
        "imdh/mnist.parquet",
        "outliers/mnist.parquet",
    )
    assert find("linear/w8a_train").file == "linear/w8a_train.svm"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("http", "did you mean outliers/http?"),
        ("imdh/musk", "did you mean bsgd/musk or outliers/musk?"),
        ("shutle", "did you mean shuttle?"),
        ("nothing-like-it", "see python -m benchmarks datasets list"),
    ],
)
def test_an_unknown_name_is_told_what_is_like_it(name, hint):
    with pytest.raises(InputNotFoundError) as found:
        find(name)
    assert repr(name) in str(found.value)
    assert str(found.value).endswith(hint)


def test_an_unknown_key_is_refused(monkeypatch):
    with pytest.raises(DataError, match="x has unknown keys colour"):
        _dataset("x", {"colour": 1})


def test_no_number_was_written_twice():
    text = (importlib.resources.files("benchmarks.datasets") / "catalogue.toml").read_text()
    numbers = [table["openml"]["id"] for table in tomllib.loads(text).values() if "openml" in table]
    assert len(set(numbers)) == len(numbers) > 20
    assert all(math.isfinite(one.fingerprint or 0.0) for one in SETS.values())
