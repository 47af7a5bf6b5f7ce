import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from distsvc.models.graph import landmarks
from distsvc.models.graph.landmarks import separating_plane


def clusters(k, d=6, n=400, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, k, n)
    wide = random.normal(size=(n, d)) * np.array([30.0, *[1.0] * (d - 1)])
    wide[:, 1:] += 6.0 * random.normal(size=(k, d - 1))[labels]
    return wide.astype(np.float32), labels


def test_directions_equal_those_of_linear_discriminant_analysis(monkeypatch):
    monkeypatch.setattr(landmarks, "SHRUNK", 0.0)
    X, labels = clusters(4)
    found = separating_plane(X, labels)
    expected = LinearDiscriminantAnalysis(solver="eigen").fit(X, labels).scalings_[:, :2].T
    assert np.linalg.norm(found, axis=1) == pytest.approx([1.0, 1.0])
    for one, other in zip(found, expected, strict=True):
        assert abs(one @ other) / np.linalg.norm(other) == pytest.approx(1.0, abs=1e-3)


def test_a_wide_direction_without_clusters_is_not_drawn():
    X, labels = clusters(3)
    assert np.abs(separating_plane(X, labels)[:, 0]).max() < 0.1


def test_two_clusters_have_a_second_direction():
    X, labels = clusters(2)
    first = (X - X.mean(axis=0)) @ separating_plane(X, labels).T.astype(float)
    means = np.array([first[labels == c, 0].mean() for c in (0, 1)])
    assert abs(means[0] - means[1]) > 4.0 * first[labels == 0, 0].std()
    assert first[:, 1].std() > 0.0
