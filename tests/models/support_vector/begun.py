"""Engines of support vector clustering whose steps a test takes itself."""

import numpy as np

from distsvc import SupportVectorClustering
from distsvc.models.rows import sampling
from distsvc.models.support_vector.engines import engine_for


def begun(X, **parameters):
    """Return the engine with its pilot set, and the rows' keys."""
    engine = engine_for(SupportVectorClustering(**parameters).get_params(), 0)
    keys = sampling.row_keys(0, np.arange(len(X)))
    engine.set_pilot(X[np.argsort(keys)[: sampling.PILOT_ROWS]], len(X))
    return engine, keys


def fitted(X, **parameters):
    engine, keys = begun(X, **parameters)
    rows, order = engine.seen(X), np.argsort(keys)
    engine.learn(rows[order], keys[order], len(rows))
    engine.find_clusters([(rows, keys)])
    return engine
