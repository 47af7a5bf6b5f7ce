"""One table has the allowed values of parameters, in estimators and in job files."""

import inspect
import re
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from distsvc import SupportVectorClustering
from distsvc.errors import ParameterError, shown
from distsvc.job.parameters import (
    BOOLEAN,
    COMPOSED,
    COUNT,
    JOINT_RULES,
    KERNEL_WIDTH,
    NOT_NEGATIVE,
    PARAMETERS,
    POSITIVE,
    RANDOM_STATE,
    SHARE,
    check_parameters,
    check_streams,
    check_together,
    choice,
    completed,
    count,
    is_several,
    number,
)
from distsvc.models.estimators import ESTIMATORS
from distsvc.models.support_vector.boundary.stochastic_gradient import STRATEGIES
from distsvc.models.support_vector.level_tree.ensemble import EFFORTS
from distsvc.models.support_vector.level_tree.proposals import REFERENCE_ROWS

SUPPORT_VECTOR = SupportVectorClustering().get_params()


def in_job(constraint, value) -> bool:
    try:
        TypeAdapter(constraint.job_type).validate_python(value)
    except ValidationError:
        return False
    return True


def for_estimator(constraint, value) -> bool:
    try:
        constraint.check("x", value)
    except ParameterError:
        return False
    return True


def test_the_table_has_every_algorithm():
    assert list(PARAMETERS) == [*ESTIMATORS, *COMPOSED]
    assert set(JOINT_RULES) <= set(PARAMETERS)


@pytest.mark.parametrize("algorithm", ESTIMATORS)
def test_the_table_has_the_parameters_and_defaults_of_the_signature(algorithm):
    signature = inspect.signature(ESTIMATORS[algorithm]).parameters
    assert completed(algorithm, {}) == {name: one.default for name, one in signature.items()}


@pytest.mark.parametrize(
    ("algorithm", "name"), [(a, name) for a in ESTIMATORS for name in PARAMETERS[a]]
)
def test_every_parameter_is_checked_by_its_estimator(algorithm, name):
    for fit in {"fit", "partial_fit"} & set(dir(ESTIMATORS[algorithm])):
        with pytest.raises(ParameterError, match=rf"^{name} must .* found <object"):
            getattr(ESTIMATORS[algorithm](**{name: object()}), fit)(np.eye(200, 2))


def test_choices_are_those_that_the_models_know():
    table = PARAMETERS["support-vector"]
    assert get_args(table["maintenance"].type) == tuple(STRATEGIES)
    assert get_args(table["effort"].type) == tuple(EFFORTS)
    assert get_args(table["granularity"].type) == tuple(REFERENCE_ROWS)


VALUES = (-1, 0, 0.5, 1, 1.5, 15, 16, 17, 49, 50, 100, 100.5, 999, 1000, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        (algorithm, name)
        for algorithm, of in PARAMETERS.items()
        for name, constraint in of.items()
        if constraint.job_type is not None
    ],
)
def test_job_and_estimator_allow_the_same_values(algorithm, name):
    constraint = PARAMETERS[algorithm][name]
    values = VALUES + (() if constraint.type is bool else ("merge", "auto", "", [], [1.0]))
    values = (True, False) if constraint.type is bool else values
    for value in values:
        assert in_job(constraint, value) == for_estimator(constraint, value), value


ONE_OR_MORE = "be a whole number of at least 1"
POSITIVE_NUMBER, NO_NEGATIVE = "be a positive number", "be a number of at least 0"
NO_NUMBERS = (-1, -1e-9, np.nan, np.inf, -np.inf, 10**400, True, "1", None, [1.0], 1j)
WIDTHS = "be 'auto', a positive number or a list of positive numbers"


@pytest.mark.parametrize(
    ("constraint", "allowed", "message", "wrong"),
    [
        (POSITIVE, (1, 0.5, 1e-300, np.float32(2), np.int8(3), Fraction(1, 3)),
         POSITIVE_NUMBER, (*NO_NUMBERS, 0, 0.0)),
        (NOT_NEGATIVE, (1, 0.5, 1e-300, np.float32(2), Fraction(1, 3), 0, 0.0),
         NO_NEGATIVE, NO_NUMBERS),
        (POSITIVE.in_memory, (1,), POSITIVE_NUMBER, (0,)),
        (SHARE, (1.0,), "lie in (0, 1]", (1.5, 0.0, np.nan, "half")),
        (number(high=1.0, low_open=False), (0.0,), "lie in [0, 1]", (1.5,)),
        (number(low=1.0), (1.0 + 1e-9,), "be above 1", (1.0, 0, "two")),
        (COUNT, (1, 10**30, np.int64(7), np.uint8(1)),
         ONE_OR_MORE, (0, -1, 1.0, np.float64(2), True, np.True_, "3", None, np.nan)),
        (COUNT.or_none, (None, 1), ONE_OR_MORE, (0,)),
        (count(most=16), (16,), "be at most 16", (17,)),
        (count(most=16), (1,), ONE_OR_MORE, (0,)),
        (count(100), (100,), "be a whole number of at least 100", (99,)),
        (choice("a", "b"), ("b",), "be one of ('a', 'b')", ("c", "A", None, 1)),
        (choice("a", in_memory=("b",)), ("a", "b"), "be one of ('a', 'b')", ("c",)),
        (BOOLEAN, (True, False, np.True_, np.False_), "be True or False", (0, 1, "true", None)),
        (KERNEL_WIDTH, ("auto", 2, 0.5, [1], (1.0, 2.0), np.array([0.5]), np.array(2.0)), WIDTHS,
         ("scale", 0.0, np.nan, np.inf, True, None, [], [1.0, 0.0], ["auto"], [[1.0], [2.0]],
          {1: 1.0})),
        (RANDOM_STATE, (None, 0, np.uint8(3), np.random.RandomState(0), np.random),
         "be a whole number of at least 0", (-1, 1.0, True, "tuesday", np.random.default_rng(0))),
    ],
)  # fmt: skip
def test_values_of_a_constraint(constraint, allowed, message, wrong):
    for value in allowed:
        constraint.check("x", value)
    for value in wrong:
        with pytest.raises(ParameterError) as caught:
            constraint.check("x", value)
        assert str(caught.value) == f"x must {message}, found {shown(value)}"


def test_parameters_for_tables_in_memory_only():
    assert RANDOM_STATE.job_type is None
    assert POSITIVE.in_memory.job_type is None
    names = choice("a", in_memory=("b",))
    assert in_job(names, "a")
    assert not in_job(names, "b")


AS_PUBLISHED = {"variant": "published", "gamma": 1.0}
NO_TREE = "labelling='level-tree' needs solver='bsgd' or 'sgd', found 'exact'"
FAULTS: dict[str, list[tuple[dict, str]]] = {
    "linear-svdd": [({"nu": 1, "C": 2}, "give nu or C, not both (found nu = 1 and C = 2)")],
    "imdh": [({"depth": 6, "n_clusters": 33}, "n_clusters must be at most 32, found 33")],
    "support-vector": [
        ({"nu": 0.1, "C": 2.0}, "give nu or C, not both (found nu = 0.1 and C = 2.0)"),
        ({"iterate": "average"}, "iterate = 'average' needs solver = 'sgd', found 'bsgd'"),
        (
            {"iterate": "random", "solver": "exact"},
            "iterate = 'random' needs solver = 'bsgd' or 'sgd', found 'exact'",
        ),
        (
            {"variant": "published"},
            "the published method needs one number for gamma, found 'auto'; the papers try "
            "2^-5 to 2^5",
        ),
        (
            AS_PUBLISHED | {"nu": 0.1},
            "the published method needs C, found none (nu needs solver = 'exact')",
        ),
        (
            AS_PUBLISHED | {"C": 2.0},
            "the published method needs stopping = 'step-norm', found 'held-out'",
        ),
        (
            AS_PUBLISHED | {"C": 2.0, "stopping": "step-norm"},
            "the papers do not merge vectors: maintenance must be 'removal', 'project-nearest' or "
            "'project-random' in the published method, found 'merge'",
        ),
        (
            AS_PUBLISHED | {"C": 2.0, "n_clusters": 2},
            "the published method has no level tree: leave n_clusters out, and give "
            "labelling='equilibria'",
        ),
        (
            {"gamma": [1.0], "labelling": "equilibria"},
            "several values of gamma need labelling='level-tree', found [1.0]",
        ),
        ({"gamma": [1.0], "solver": "exact"}, NO_TREE),
        ({"labelling": "level-tree", "solver": "exact"}, NO_TREE),
    ],
}


@pytest.mark.parametrize(
    ("algorithm", "given", "message"),
    [(algorithm, *fault) for algorithm, faults in FAULTS.items() for fault in faults],
)
def test_parameters_that_contradict_each_other(algorithm, given, message):
    parameters = ESTIMATORS[algorithm]().get_params() | given
    with pytest.raises(ParameterError, match=f"^{re.escape(message)}$"):
        check_parameters(algorithm, parameters)


@pytest.mark.parametrize("algorithm", PARAMETERS)
def test_a_job_that_gives_nothing_keeps_every_rule(algorithm):
    check_together(algorithm, dict.fromkeys(PARAMETERS[algorithm]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"solver": "exact"}, "solver='exact' needs all rows at once; use fit"),
        ({"labelling": "level-tree"}, "a level tree needs all rows at once; use fit"),
        ({"gamma": [1.0]}, "a level tree needs all rows at once; use fit"),
        ({"n_clusters": 3}, "a level tree needs all rows at once; use fit"),
        ({"labelling": "balls"}, "labelling='balls' needs all rows at once; use fit"),
    ],
)
def test_settings_that_can_not_learn_from_blocks(given, message):
    check_streams(SUPPORT_VECTOR)
    with pytest.raises(ParameterError, match=f"^{re.escape(message)}$"):
        check_streams(SUPPORT_VECTOR | given)


def test_one_width_or_several():
    assert not any(map(is_several, ("auto", 1, 0.5, np.float64(2), None)))
    assert all(map(is_several, ([1.0], (), np.array([1.0]))))
