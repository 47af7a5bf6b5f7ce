"""Tables of the realistic suite: densities, best labels, halves."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import nbinom

from benchmarks.realistic import plans
from benchmarks.realistic.added import added_table, answers
from benchmarks.realistic.columns import FACTOR_NODES, FACTOR_WEIGHTS, ColumnSpec, DrawnColumn
from benchmarks.realistic.generated import generated_table
from benchmarks.realistic.one_class import SHAPES, one_class_table
from benchmarks.realistic.plans import TablePlan, class_scores
from benchmarks.realistic.suite import tables
from benchmarks.realistic.wide import wide_plan, wide_table

SPECS = {
    "rounded": (ColumnSpec("x", "normal", 3.0, 0.9, 1, 1, 5), np.arange(1.0, 6.0)),
    "fine": (ColumnSpec("x", "normal", 5.0, 0.4, 0.05), np.arange(-100, 400) * 0.05),
    "log": (ColumnSpec("x", "log", 1.0, 0.6, 0.1), np.arange(0, 1000) * 0.1),
    "logit": (ColumnSpec("x", "logit", 0.4, 0.6, 0.01), np.arange(0, 101) * 0.01),
    "poisson": (ColumnSpec("x", "count", 0.8, 0.0), np.arange(200.0)),
    "count": (ColumnSpec("x", "count", 1.6, 0.4), np.arange(2000.0)),
    "zeros": (ColumnSpec("x", "zeros", 1.2, 0.8, 1, nonzero_logit=-1.0), np.arange(5000.0)),
    "flag": (ColumnSpec("x", "flag", -0.4), np.arange(2.0)),
    "cat": (ColumnSpec("x", "cat", levels=6), np.arange(6.0)),
}
"""Columns, and all the values that they can have."""


def column(spec: ColumnSpec, loading: float = 0.0, seed: int = 0) -> DrawnColumn:
    """Return a column with effects of two classes."""
    random = np.random.default_rng(seed)
    effects = random.normal(size=(2, spec.levels) if spec.levels else 2)
    return DrawnColumn(
        spec, effects, np.array([0.8, 1.3]), loading, random.normal(size=spec.levels)
    )


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("k", [0, 1])
def test_probabilities_of_all_values_add_to_one(name, k):
    spec, values = SPECS[name]
    model = column(spec, 0.0 if spec.kind == "cat" else 0.5)
    total = np.exp(model.log_density(values, k, 0.7)).sum(0)
    assert total == pytest.approx(np.ones(len(total)), abs=2e-3)


@pytest.mark.parametrize("name", SPECS)
def test_values_have_the_shares_that_the_density_says(name):
    spec, values = SPECS[name]
    model, n = column(spec), 20_000
    random = np.random.default_rng(1)
    drawn = model.draw(np.ones(n, int), np.zeros(n), 0.7, random)
    expected = np.exp(model.log_density(values, 1, 0.7)[:, 0])
    below = [(np.mean(drawn <= v + 1e-9), expected[: i + 1].sum()) for i, v in enumerate(values)]
    assert max(abs(a - b) for a, b in below) < 0.015


def brute_force(plan: TablePlan, row: np.ndarray) -> list[float]:
    """Return the share times the probability of a row by component, value by value."""
    found = []
    for k, weight in enumerate(plan.weights):
        total = 0.0
        for node, node_weight in zip(FACTOR_NODES, FACTOR_WEIGHTS, strict=True):
            p = node_weight
            for model, x in zip(plan.columns, row, strict=True):
                spec = model.spec
                if np.isnan(x):
                    continue
                if spec.kind == "cat":
                    e = np.exp(model.base + plan.strength * model.effects[k])
                    p *= e[int(x)] / e.sum()
                    continue
                shift = plan.strength * model.effects[k] + model.loading * node
                eta = spec.at + spec.unit * shift
                if spec.kind == "flag":
                    p *= 1 / (1 + np.exp(-eta if x else eta))
                elif spec.kind == "count":
                    r = 1 / spec.sd**2
                    p *= nbinom.pmf(x, r, r / (r + np.exp(eta)))
                else:
                    low = -np.inf if x <= spec.low else x - spec.step / 2
                    high = np.inf if x >= spec.high else x + spec.step / 2
                    sd = spec.sd * model.widths[k]
                    p *= ndtr((high - eta) / sd) - ndtr((low - eta) / sd)
            total += p
        found.append(weight * total)
    return found


def test_best_labels_are_those_of_brute_force():
    loadings = {"rounded": 0.7, "count": -0.4, "flag": 0.0, "cat": 0.0}
    columns = [column(SPECS[name][0], load, i) for i, (name, load) in enumerate(loadings.items())]
    plan = TablePlan(columns, np.array([0.3, 0.7]), np.arange(2), 1.2, missing=0.1)
    x, classes = plan.draw(25, np.random.default_rng(0))
    assert np.isnan(x).any()
    assert set(classes) == {0, 1}
    expected = np.array([brute_force(plan, row) for row in x])
    np.testing.assert_allclose(np.exp(class_scores(plan, x)), expected, rtol=1e-8)
    np.testing.assert_array_equal(plan.best_labels(x), expected.argmax(1))


def test_a_class_of_sub_populations_has_the_density_of_their_sum():
    columns = [column(SPECS["rounded"][0])]
    apart = TablePlan(columns, np.array([0.3, 0.7]), np.arange(2), 1.0)
    joined = TablePlan(columns, np.array([0.3, 0.7]), np.zeros(2, int), 1.0)
    x, classes = joined.draw(50, np.random.default_rng(0))
    assert set(classes) == {0}
    total = np.exp(class_scores(apart, x)).sum(1)
    np.testing.assert_allclose(np.exp(class_scores(joined, x))[:, 0], total)


def test_a_table_follows_from_its_name_and_seed():
    one, same, other = (generated_table("cards", 4, seed, n=500) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one.frame, same.frame)
    np.testing.assert_array_equal(one.best, same.best)
    assert not one.frame.equals(other.frame)
    assert list(one.frame.dtypes.astype(str)).count("category") == 2
    assert one.frame.isna().any().any()


def test_wide_tables_have_classes_in_all_or_few_columns_or_one_class(monkeypatch):
    monkeypatch.setattr(plans, "BISECTION_ROWS", 20)
    wide_plan.cache_clear()
    for informative, expected in (("twelve", 12), ("none", 0)):
        columns = wide_plan(120, informative, 0.4).columns
        assert sum(one.effects.any() for one in columns) == expected
    table = wide_table(120, "none", 0.4)
    assert (table.name, table.frame.shape) == ("wide-120-none-factor", (3000, 120))
    assert table.n_classes == 1
    wide_plan.cache_clear()


@pytest.mark.parametrize("place", [("orders", 0), ("cards", 4)])
def test_the_ceiling_is_about_that_of_the_design(place):
    table = generated_table(*place, n=3000)
    assert table.ceiling == "exact"
    assert 0.5 < table.ceiling_ari < 1.0
    expected = {0: 0.85, 4: 0.65}[place[1]]
    assert table.ceiling_ari == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_table_of_one_class_has_one_class(shape):
    for seed in (0, 1):
        table = one_class_table(shape, seed)
        assert table.n_classes == 1
        assert table.group == "one-class"
        assert table.frame.nunique().min() > 1
        assert table.frame.columns.is_unique
    assert {one_class_table(shape, seed).half for seed in (0, 1)} == {"tune", "confirm"}


def test_answers_are_1_to_5_by_thresholds():
    latent = np.array([[-9.0], [-0.7], [0.0], [0.7], [9.0]])
    assert answers(latent, np.array([[-1.0, -0.5, 0.5, 1.0]])).ravel().tolist() == [1, 2, 3, 4, 5]


def test_a_supervised_ceiling_is_that_of_a_classifier(monkeypatch):
    from benchmarks.realistic import added

    monkeypatch.setattr(added, "TRAINING_ROWS", 1000)
    added.classifier.cache_clear()
    table = added_table("only-ordinal", 1)
    added.classifier.cache_clear()
    assert table.ceiling == "supervised"
    assert 0.8 < table.ceiling_ari <= 1.0
    assert set(np.unique(table.frame)) == {1, 2, 3, 4, 5}


def test_tables_are_chosen_by_group_half_and_name():
    found = list(tables(("one-class",), (0, 1), "tune", ("one-clock", "one-parts")))
    assert [(table.name, table.seed) for table in found] == [("one-clock", 0), ("one-parts", 0)]
