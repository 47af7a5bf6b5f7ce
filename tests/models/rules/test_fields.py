"""Checks of a saved rule's fields, before kernels use them."""

import dataclasses
from typing import Literal

import numpy as np
import pytest

from distsvc.errors import DataError
from distsvc.models.rules.fields import (
    FLAG,
    ArrayField,
    ChildrenField,
    ClustersField,
    Fact,
    check_fields,
    forms_of,
    real,
    whole,
)
from tests.models.rules.test_rule import EACH, RULES, D

FREE = {"centres": ["centres"], "level-tree": ["S"]}
"""Arrays whose first dimension is no other's: the number of centres, or of components."""

TREE = np.array([[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]], np.int32)


def refused(field, value, **sizes):
    """Return the reason why a field refuses a value."""
    with pytest.raises(DataError, match=r"^(array|fact) x: .") as found:
        check_fields({"x": field}, {"x": value}, sizes)
    return str(found.value).split(": ", 1)[1]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (np.zeros((2, 3)), "expected float32, found float64 of shape (2, 3)"),
        (np.zeros((2, 3), ">f4"), "expected float32, found >f4 of shape (2, 3)"),
        (np.zeros((2, 4), "f4"), "expected the shape (2, 3), found (2, 4)"),
        (np.zeros(6, "f4"), "expected the shape (2, 3), found (6,)"),
        (np.zeros((2, 3, 1), "f4"), "expected the shape (2, 3), found (2, 3, 1)"),
        (np.zeros((2, 3), "f4", order="F"), "expected an array in C order, found another"),
        (np.full((2, 3), np.nan, "f4"), "expected finite numbers, found NaN or infinity"),
        (np.full((2, 3), np.inf, "f4"), "expected finite numbers, found NaN or infinity"),
        (np.full((2, 3), -1, "f4"), "expected values of at least 0, found -1.0"),
        ([[0.0] * 3] * 2, "expected float32, found list"),
    ],
)
def test_an_array_of_another_form_is_refused(value, why):
    assert refused(ArrayField("float32", "q 3", least=0.0), value, q=2).startswith(why)


def test_dimensions_of_one_name_are_equal():
    sizes = {}
    fields = {"S": ArrayField("float32", "q B"), "a": ArrayField("float32", "B", above=0.0)}
    check_fields(fields, {"S": np.ones((2, 5), "f4"), "a": np.ones(5, "f4")}, sizes)
    assert sizes == {"q": 2, "B": 5}
    with pytest.raises(DataError, match=r"^array a: expected the shape \(5,\), found \(4,\)$"):
        check_fields(fields, {"S": np.ones((2, 5), "f4"), "a": np.ones(4, "f4")}, {})
    with pytest.raises(DataError, match=r"^array a is missing$"):
        check_fields(fields, {"S": np.ones((2, 5), "f4")}, {})
    assert refused(fields["S"], np.ones((0, 5), "f4")) == "expected the shape (q, B), found (0, 5)"
    assert refused(fields["a"], np.zeros(3, "f4")) == "expected values above 0, found 0.0"


@pytest.mark.parametrize("values", [[0, 2], [1, 2], [-1, 0], []])
def test_clusters_with_a_gap_are_refused(values):
    refused(ClustersField("int32", "m"), np.array(values, "i4"))


@pytest.mark.parametrize(
    ("node", "children"),
    [
        (0, [0, 1]),  # a cycle of one
        (2, [0, 4]),  # a cycle
        (2, [3, 5]),  # out of range
        (2, [3, 3]),  # one child twice
        (2, [1, 3]),  # two parents
        (2, [-1, -1]),  # nodes without a parent
        (2, [-1, 4]),  # one child
        (2, [-2, -2]),
        (4, [2**31 - 1, -(2**31)]),
    ],
)
def test_children_that_are_no_tree_are_refused(node, children):
    changed = TREE.copy()
    changed[node] = children
    refused(ChildrenField("int32", "m 2"), changed)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (real(gt=0.0), 0.0),
        (real(), float("nan")),
        (real(), float("inf")),
        (real(), 10**400),
        (real(), True),
        (real(), "1"),
        (real(), None),
        (real(le=1.0), 2),
        (whole(0, 20), 21),
        (whole(0, 20), -1),
        (whole(0, 20), 10**400),
        (whole(0, 20), 1.0),
        (whole(0, 20), False),
        (FLAG, 1),
        (FLAG, None),
        (Fact(Literal[True]), False),
        (Fact(Literal["a", "b"]), "c"),
        (Fact(Literal["a", "b"]), ["a"]),
    ],
)
def test_facts_out_of_range_are_refused(field, value):
    assert len(refused(field, value)) < 400


@EACH
def test_every_field_of_a_rule_has_a_form(rule):
    assert set(forms_of(type(rule))) == {field.name for field in dataclasses.fields(rule)}


@EACH
def test_an_array_of_another_shape_is_refused(rule):
    """Kernels would read memory beyond the array, and give other labels on each call."""
    arrays, facts = rule.arrays(), rule.facts()
    type(rule).restored(facts, arrays, D)
    for name, array in arrays.items():
        for changed in (array[:-1], np.concatenate([array, array[-1:]]), array[..., None]):
            if changed.ndim == 2 and name in FREE.get(rule.form, ()):
                continue
            with pytest.raises(DataError, match=r"^array \w+: expected "):
                type(rule).restored(facts, arrays | {name: changed}, D)
        with pytest.raises(DataError, match=f"^array {name}: expected {array.dtype}, found "):
            type(rule).restored(facts, arrays | {name: array.astype("U9")}, D)
        with pytest.raises(DataError, match=f"^array {name} is missing$"):
            type(rule).restored(facts, {n: a for n, a in arrays.items() if n != name}, D)
    with pytest.raises(DataError, match=r"^array \w+: expected the shape"):
        type(rule).restored(facts, arrays, D + 1)


def test_vectors_have_at_most_the_components_that_rows_are_projected_on():
    rule = next(rule for rule in RULES if rule.form == "level-tree")
    facts, arrays = rule.facts(), rule.arrays()
    arrays["S"] = np.zeros((1, arrays["S"].shape[1]), "f4")
    rows = np.zeros((5, D), "f4")
    assert np.isfinite(type(rule).restored(facts, arrays, D).label(rows)["score"]).all()
    arrays["S"] = np.zeros((3, arrays["S"].shape[1]), "f4")
    with pytest.raises(DataError, match=r"^array S: expected at most 2 components, found 3$"):
        type(rule).restored(facts, arrays, D)


@pytest.mark.parametrize(
    ("form", "change", "why"),
    [
        ("imdh", {"n_clusters": 99}, "fact n_clusters: expected 4 at most, found 99"),
        ("imdh", {"n_clusters": 0}, "fact cut_into: expected greater than or equal to 1, found 0"),
        ("imdh", {"splits": slice(None, None, -1)}, "array splits: expected parents before"),
        ("imdh", {"splits": [0, 0, 0]}, "array splits: expected every node with children once"),
        ("imdh", {"curve": slice(2)}, "array curve: expected 4 values, found 2"),
        ("splits", {"clusters": [-1, 0, 0]}, "array clusters: expected a cluster of its own"),
        ("splits", {"clusters": [0, 1, -1]}, "array clusters: expected a cluster of its own"),
        ("level-tree", {"gamma": 1e308}, "fact gamma: expected less than or equal to 34028"),
        ("level-tree", {"near_least": 0.0}, "fact near_least: expected greater than 0, found 0.0"),
        ("level-tree", {"near_unit": 0.0}, "fact near_unit: expected greater than or equal to"),
        ("level-tree", {"components": slice(1)}, "array near_points: expected the shape"),
        ("linear-svdd", {"ball": False}, "fact ball: expected True, found False"),
    ],
)
def test_inconsistent_fields_are_refused(form, change, why):
    rule = next(rule for rule in RULES if rule.form == form)
    facts, arrays = rule.facts(), rule.arrays()
    for name, value in change.items():
        if name in arrays:
            kept = arrays[name]
            new = kept[value] if isinstance(value, slice) else np.array(value, kept.dtype)
            arrays[name] = new.copy()
        else:
            facts[name] = value
    with pytest.raises(DataError) as found:
        type(rule).restored(facts, arrays)
    assert str(found.value).startswith(why)
