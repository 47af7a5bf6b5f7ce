"""Advice is read from warnings, followed one by one, and compared for contradictions."""

import numpy as np

from benchmarks.realistic.advice import Advice, contradictions, keys_in, merged, pieces_of, together
from benchmarks.realistic.kinds import KINDS, ROWS, kind_table
from tests.report.reports import make_report, typed


def test_keys_are_those_that_a_text_advises():
    text = "use preprocess.scale = 'robust', or for some columns preprocess.log = ['x']"
    assert list(keys_in(text)) == [("preprocess.scale", "robust"), ("preprocess.log", ["x"])]
    text = "give missing_values = [-9] and missing = 'median' (or 'drop') in [preprocess]"
    assert dict(keys_in(text)) == {
        "preprocess.missing_values": [-9],
        "preprocess.missing": "median",
    }
    assert not list(keys_in("row 3 (x = 12), C = 3 is too small: it puts all rows outside"))


def test_advice_is_read_from_warnings():
    warnings = ["Clusters 0 and 1 differ only in b. To ignore it: --exclude b", "nothing"]
    warnings += ["use preprocess.log = ['x'], or preprocess.scale = 'robust'"]
    found = list(pieces_of(typed(make_report() | {"warnings": warnings})))
    assert found == [
        Advice(0, {"input.exclude": ["b"]}),
        Advice(2, {"preprocess.log": ["x"]}),
        Advice(2, {"preprocess.scale": "robust"}),
    ]
    assert [one.kind for one in found][1:] == ["preprocess.log", "preprocess.scale=robust"]
    assert together(found) == [Advice(-1, {"input.exclude": ["b"], "preprocess.log": ["x"]})]
    assert not together(found[:1])


def test_lists_add_up_and_other_values_contradict():
    a, b = {"input.exclude": ["x"], "preprocess.scale": "robust"}, {"input.exclude": ["y"]}
    assert merged([a, b]) == {"input.exclude": ["x", "y"], "preprocess.scale": "robust"}
    pieces = [Advice(0, a), Advice(0, {"preprocess.scale": "none"}), Advice(1, b)]
    assert not contradictions(pieces)  # alternatives of one warning
    pieces.append(Advice(2, {"preprocess.scale": "standard"}))
    assert len(contradictions(pieces)) == 2


def test_the_thirteen_kinds_are_as_planted():
    assert len(KINDS) == 13
    for name in KINDS:
        table, again = kind_table(name), kind_table(name)
        assert len(table.frame) == len(table.classes) == ROWS
        assert table.frame.equals(again.frame)
        assert (np.bincount(table.classes) > 50).all()
        assert table.n_classes == {"one_class": 1}.get(name, table.classes.max() + 1)
