"""Integers beyond 2^53 in arrays and tables that users give."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from distsvc import SupportVectorClustering
from distsvc.errors import UnusableRowsError

N = 300
NARROW = 2**58 + np.arange(N) % 2 * 300
WIDE = 2**58 + (np.arange(N) % 2) * 2**50
OTHER = np.random.default_rng(0).integers(0, 50, N)


def kinds(big):
    table = pa.table({"other": OTHER, "big": big})
    return {
        "array": np.column_stack([OTHER, big]),
        "Arrow": table,
        "pandas": pd.DataFrame({"other": OTHER, "big": big}),
        "a stream": table.to_reader(max_chunksize=7),
        "decimals": table.set_column(1, "big", table["big"].cast(pa.decimal128(38, 0))),
    }


def model():
    return SupportVectorClustering(gamma=1e-30, max_iter=200, random_state=0)


@pytest.mark.parametrize("kind", kinds(NARROW))
def test_integers_that_float64_rounds_to_one_are_refused(kind):
    column = "1" if kind == "array" else "'big'"
    message = (
        rf"X: column {column} holds numbers from {2**58} to {2**58 + 300}, .* subtract {2**58}"
    )
    with pytest.raises(UnusableRowsError, match=message):
        model().fit(kinds(NARROW)[kind])


@pytest.mark.parametrize("big", [WIDE, np.full(N, 2**58 + 1)])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["array", "Arrow"])
def test_others_are_taken(kind, big):
    scaled = kinds(big)[kind]
    assert len(model().fit(scaled).labels_) == N


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_new_rows_may_be_few():
    fitted = model().fit(kinds(WIDE)["array"])
    assert len(fitted.predict(kinds(NARROW)["array"])) == N
