"""Estimators of tables with categories store the columns of their table."""

import numpy as np
import pandas as pd
import pytest

import distsvc
from distsvc import MixtureClustering

N = 200
random = np.random.default_rng(0)
SIDE = random.integers(0, 2, N)
FRAME = pd.DataFrame({
    "age": random.normal(20 + 40 * SIDE, 3),
    "income": random.normal(100, 1, N),
    "plan": np.where(SIDE == 0, "free", "paid"),
})  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return MixtureClustering(random_state=0).fit(FRAME)


def test_the_plot_names_the_columns(model):
    axes = distsvc.plot.clusters(model, FRAME).axes
    words = " ".join(ax.get_xlabel() + ax.get_ylabel() for ax in axes)
    assert any(name in words for name in FRAME.columns)
    assert "x0" not in words


def test_an_array_with_text_is_refused(model):
    for of in model.predict, MixtureClustering().fit:
        with pytest.raises(ValueError, match=r"X holds text, .*: 'free'; Auto.* table"):
            of(FRAME.sort_values("plan").to_numpy())


def test_missing_and_further_columns_are_named(model):
    for frame, expected in (
        (FRAME.drop(columns="plan"), "X has 2 columns, expected 3, as in fit; missing: 'plan'$"),
        (FRAME.assign(town=1), "X has 4 columns, expected 3, as in fit; not in fit: 'town'$"),
    ):
        with pytest.raises(ValueError, match=expected):
            model.predict(frame)


def test_columns_in_another_order_are_refused(model):
    expected = (
        "X has the columns income, age, plan; expected age, income, plan, in the order of fit"
    )
    with pytest.raises(ValueError, match=expected):
        model.predict(FRAME[["income", "age", "plan"]])
