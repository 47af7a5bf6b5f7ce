"""Blocks have the same rows for every layout of a table and every cut of a range."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.storage.rows.blocks import Span
from distsvc.storage.tables.opening import read_blocks
from tests.small_tables import LAYOUTS, everything, matrix, opened


@pytest.mark.parametrize("where", [None, "split == 1 and (flag == true or not b > 0)"])
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=40, deadline=None)
@given(cut=st.tuples(st.integers(0, 300), st.integers(0, 300)), block_rows=st.integers(1, 400))
def test_blocks_hold_the_rows_of_the_range(layouts, layout, where, cut, block_rows):
    folder, data = layouts[layout]
    start, stop = min(cut), max(cut)
    table = opened(
        folder, folder, id="row_id", classes="label", where=where, columns=["c", "a", "b"]
    )
    rows, X, ids, labels = everything(table, start, stop, block_rows)

    expected = data.append_column("row", pa.array(np.arange(300))).slice(start, stop - start)
    expected = expected.combine_chunks()  # or_kleene of pyarrow 17 mixes up chunks
    if where is not None:
        positive = pc.greater(expected["b"], 0)
        kept = pc.and_kleene(
            pc.equal(expected["split"], 1), pc.or_kleene(expected["flag"], pc.invert(positive))
        )
        expected = expected.filter(kept)
    np.testing.assert_array_equal(rows, expected["row"].to_numpy())
    np.testing.assert_array_equal(X, matrix(expected, ["c", "a", "b"]))
    assert ids == expected["row_id"].to_pylist()
    assert labels == expected["label"].to_pylist()


def test_ids_and_labels_only_when_asked(layouts):
    folder, _ = layouts["one row group"]
    table = opened(folder, folder, id="row_id", classes="label")
    (block,) = read_blocks(table, Span(0, 300, 300))
    assert block.ids is None
    assert block.labels is None
    (block,) = read_blocks(table, Span(0, 300, 300, with_labels=True))
    assert block.ids is None
    assert block.labels.type == pa.string()
