"""The kind and scale of each modelled column in words."""

import numpy as np
import pytest

from distsvc.models.columns.described import described
from distsvc.models.columns.maps import GivenColumn
from distsvc.models.columns.model import ColumnModel

N = 3000


def columns():
    random = np.random.default_rng(3)
    amount = np.where(random.random(N) < 0.4, 0.0, np.exp(random.normal(3.0, 0.6, N)).round(2))
    return {
        "height": (random.normal(0.0, 9.0, N), "continuous", "as stored"),
        "spend": (np.exp(random.normal(4.0, 0.8, N)), "continuous", "logarithm"),
        "age": (random.normal(50.0, 3.0, N).round(), "count", "as stored"),
        "tenth": (random.normal(0.0, 1.0, N).round(1), "rounded", "as stored"),
        "amount": (amount, "zero-inflated", "logarithm"),
        "rating": (random.choice(5, N, p=[0.4, 0.05, 0.05, 0.2, 0.3]) + 1.0, "ordinal", ""),
        "flag": (random.integers(0, 2, N).astype(float), "binary", ""),
        "same": (np.full(N, 3.0), "constant", ""),
    }


def model_of(names):
    X = np.column_stack([columns()[name][0] for name in names])
    return ColumnModel.of(X, np.zeros(len(names), bool))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (1e5 + np.random.default_rng(0).integers(0, 300, N) / 100.0, "rounded to 0.01"),
        (1e8 + np.random.default_rng(0).integers(0, 300, N) / 100.0, "rounded to 0.01"),
        (2.0 * np.random.default_rng(0).integers(-50, 50, N), "rounded to 2"),
        (
            np.random.default_rng(1).normal(0.0, 99.0, 400)[np.arange(N) % 400],
            "values repeat; the commonest gap",
        ),
    ],
)
def test_only_multiples_of_a_step_are_rounded(values, reason):
    model = ColumnModel.of(values[:, None].astype(float), np.zeros(1, bool))
    (found,) = described(model, ["x"])
    assert found.kind == "rounded"
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("step", "unit", "reason"),
    [
        (86_400.0, "seconds", "rounded to a day"),
        (900.0, "seconds", "rounded to 15 minutes"),
        (0.5, "seconds", "rounded to 0.5 seconds"),
        (7.0, "days", "rounded to 7 days"),
        (86_400.0, "", "rounded to 86400"),
    ],
)
def test_steps_of_times_have_units(step, unit, reason):
    values = step * np.random.default_rng(0).integers(-50, 50, N)
    model = ColumnModel.of(values[:, None], np.zeros(1, bool))
    (found,) = described(model, ["x"], units=[unit])
    assert found.reason.startswith(reason)


@pytest.mark.parametrize("name", columns())
def test_kinds_and_scales(name):
    _, kind, scale = columns()[name]
    (found,) = described(model_of([name]), [name])
    assert (found.kind, found.scale) == (kind, scale)
    assert found.reason


def test_a_restored_model_has_the_same_descriptions():
    names = list(columns())
    model = model_of(names)
    again = ColumnModel.restored(model.facts(), model.tables, model.salts)
    assert described(again, names) == described(model, names)


def test_codes_are_a_category_and_given_kinds_are_the_reason():
    codes = np.arange(N) % 3
    model = ColumnModel.of(codes[:, None].astype(float), np.array([True]))
    assert described(model, ["plan"])[0].kind == "category"
    x = columns()["age"][0]
    given = [GivenColumn("continuous", "log")]
    model = ColumnModel.of(x[:, None], np.zeros(1, bool), given)
    (found,) = described(model, ["age"], given)
    assert (found.kind, found.scale, found.reason) == (
        "continuous",
        "logarithm",
        "given in [columns]",
    )


@pytest.mark.parametrize("slope", [3.0, -3.0])
def test_a_copy_names_its_original(slope):
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[:, 1] = slope * X[:, 0] + 1.0
    first = ColumnModel.of(X, np.zeros(2, bool))
    later = ColumnModel.of(X[:200], np.zeros(2, bool), before=first)
    for model in (first, later):
        _, copy = described(model, ["a", "b"])
        assert copy.kind == "copy"
        assert copy.reason == "orders the rows as 'a' does, or in reverse; not used"
