"""Verbose estimators print the duration of each phase."""

import re

import numpy as np
import pyarrow as pa
import pytest

from distsvc.errors import ParameterError
from distsvc.models.estimators import ESTIMATORS

LONG = ["auto", "support-vector", "imdh", "linear-one-class", "linear-svdd"]
FAST = {"auto": {"effort": "fast"}, "support-vector": {"effort": "fast"}, "imdh": {"depth": 4}}


def rows(n=300):
    random = np.random.default_rng(0)
    return 8.0 * np.eye(3, 4)[random.integers(0, 3, n)] + random.normal(size=(n, 4))


def streamed(X):
    return pa.table({f"x{k}": column for k, column in enumerate(X.T)}).to_reader()


@pytest.mark.parametrize("algorithm", LONG)
def test_a_line_for_each_phase(algorithm, capsys):
    estimator = ESTIMATORS[algorithm](verbose=1, random_state=0, **FAST.get(algorithm, {}))
    estimator.fit(rows())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= (1 if algorithm.startswith("linear") else 3)
    name = type(estimator).__name__
    assert all(re.fullmatch(rf"\[{name}\] .+: \d+\.\d s", line) for line in lines)


@pytest.mark.parametrize("algorithm", ["auto", "support-vector", "imdh"])
def test_phases_of_a_stream(algorithm, capsys):
    estimator = ESTIMATORS[algorithm](verbose=True, random_state=0, **FAST[algorithm])
    estimator.fit(streamed(rows()))
    assert "labels, shares and scores" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("algorithm", LONG)
def test_silence_by_default(algorithm, capsys):
    ESTIMATORS[algorithm](random_state=0, **FAST.get(algorithm, {})).fit(rows())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("verbose", [-1, 0.5, "yes", None])
def test_a_level_is_a_whole_number(verbose):
    with pytest.raises(ParameterError, match="verbose must be a whole number of at least 0"):
        ESTIMATORS["auto"](verbose=verbose).fit(rows())
