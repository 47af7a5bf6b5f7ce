from fractions import Fraction

import numpy as np
import pytest

from distsvc.models.checks import check_choice, check_count, check_number, seed_of


@pytest.mark.parametrize("value", [1, 0.5, 1e-300, np.float32(2), np.int8(3), Fraction(1, 3)])
def test_positive_numbers(value):
    check_number("x", value)
    check_number("x", value, zero=True)


@pytest.mark.parametrize("value", [-1, -1e-9, np.nan, np.inf, -np.inf, True, "1", None, [1.0], 1j])
def test_what_is_no_positive_number(value):
    with pytest.raises(ValueError) as caught:
        check_number("x", value)
    assert str(caught.value) == f"x must be a positive number, found {value!r}"
    with pytest.raises(ValueError) as caught:
        check_number("x", value, zero=True)
    assert str(caught.value) == f"x must be a number of at least 0, found {value!r}"


def test_zero_is_a_number_where_it_may_be():
    check_number("x", 0, zero=True)
    check_number("x", 0.0, zero=True)
    with pytest.raises(ValueError, match=r"^x must be a positive number, found 0.0$"):
        check_number("x", 0.0)


def test_numbers_with_a_bound():
    check_number("x", 1.0, most=1.0)
    check_number("x", 0.0, zero=True, most=1.0)
    with pytest.raises(ValueError, match=r"^x must lie in \[0, 1\], found 1.5$"):
        check_number("x", 1.5, zero=True, most=1.0)
    for value in (1.5, 0.0, np.nan, "half"):
        with pytest.raises(ValueError, match=rf"^x must lie in \(0, 1\], found {value!r}$"):
            check_number("x", value, most=1.0)


@pytest.mark.parametrize("value", [1, 10**30, np.int64(7), np.uint8(1)])
def test_counts(value):
    check_count("x", value)


@pytest.mark.parametrize("value", [0, -1, 1.0, np.float64(2), True, np.True_, "3", None, np.nan])
def test_what_is_no_count(value):
    with pytest.raises(ValueError) as caught:
        check_count("x", value)
    assert str(caught.value) == f"x must be a whole number of at least 1, found {value!r}"


def test_counts_with_a_bound():
    check_count("x", 16, 16)
    with pytest.raises(ValueError, match=r"^x must be at most 16, found 17$"):
        check_count("x", 17, 16)
    with pytest.raises(ValueError, match=r"^x must be a whole number of at least 1, found 0$"):
        check_count("x", 0, 16)


def test_choices():
    check_choice("x", "b", ("a", "b"))
    check_choice("x", "b", {"a": 1, "b": 2})
    check_choice("x", "b", (name for name in "ab"))
    for value in ("c", "A", None, 1):
        with pytest.raises(ValueError) as caught:
            check_choice("x", value, (name for name in "ab"))
        assert str(caught.value) == f"x must be one of ('a', 'b'), found {value!r}"


def test_a_whole_number_is_its_own_seed():
    assert seed_of(7) == 7
    assert seed_of(np.uint8(200)) == 200
    assert type(seed_of(np.int64(3))) is int


def test_a_generator_gives_the_next_seed():
    generator = np.random.RandomState(3)
    first, second = seed_of(generator), seed_of(generator)
    assert first != second
    assert first == seed_of(np.random.RandomState(3))
    assert 0 <= first < 2**31


def test_none_takes_the_global_generator():
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(5)  # noqa: NPY002
        assert seed_of(None) == seed_of(np.random.RandomState(5))
    finally:
        np.random.set_state(state)  # noqa: NPY002


def test_what_is_no_seed():
    with pytest.raises(ValueError, match="'tuesday'"):
        seed_of("tuesday")
