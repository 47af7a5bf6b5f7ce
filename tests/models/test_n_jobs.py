"""Answers are the same for any number of threads, to the byte."""

import numpy as np
import pytest

from distsvc.errors import ParameterError
from distsvc.inputs import rows
from distsvc.models.estimators import ESTIMATORS

CLUSTERING = [name for name in ESTIMATORS if not name.startswith("linear")]
CASES = {
    "auto": {"effort": "fast"},
    "auto, a number of clusters": {"effort": "fast", "n_clusters": 4},
    "support-vector": {"effort": "fast"},
    "support-vector, noise": {"effort": "fast", "noise": True, "assignment": "nearest"},
    "support-vector, equilibria": {"gamma": 0.3, "nu": 0.2, "max_iter": 3_000, "epsilon": 0.5},
    "imdh": {"depth": 4},
    "bico": {"n_clusters": 3},
    "spdc": {"window": 50},
    "depddp": {},
    "fuzzy-c-means": {"n_clusters": 3, "m": 1.5},
}
OF_ROWS = ("predict", "decision_function", "score_samples", "predict_proba", "memberships")


def clusters(n, d=4):
    """Return rows (n, d) of three clusters, in random order."""
    random = np.random.default_rng(0)
    return 8.0 * np.eye(3, d)[random.integers(0, 3, n)] + random.normal(size=(n, d))


@pytest.fixture
def small_blocks(monkeypatch):
    """Let a table of some hundred rows be several blocks."""
    monkeypatch.setattr(rows, "BLOCK_VALUES", 500)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES)
def test_threads_change_no_answer(case, small_blocks):
    X = clusters(600)
    algorithm = case.partition(",")[0]
    seed = {} if algorithm == "depddp" else {"random_state": 0}
    found = []
    for n_jobs in (1, 2, 4):
        model = ESTIMATORS[algorithm](**CASES[case], **seed, n_jobs=n_jobs).fit(X)
        given = [getattr(model, name)(X) for name in OF_ROWS if hasattr(model, name)]
        found.append([model.labels_.tobytes(), *(values.tobytes() for values in given)])
    assert found[0] == found[1] == found[2]
    assert len(np.unique(model.labels_)) > 1


@pytest.mark.parametrize("n_jobs", [0, 1.5, True, "2"])
def test_a_number_of_threads_is_whole_and_not_0(n_jobs):
    model = ESTIMATORS["bico"](n_jobs=n_jobs)
    with pytest.raises(ParameterError, match="n_jobs must be None or a whole number other than 0"):
        model.fit(clusters(200))
