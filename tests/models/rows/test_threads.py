import threading

import joblib
import pytest

from distsvc.models.rows.threads import both, map_threads


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3, -1])
def test_results_come_in_the_order_of_the_items(n_jobs):
    assert map_threads(lambda i: i * i, range(9), n_jobs) == [i * i for i in range(9)]
    assert map_threads(str, iter("ab"), n_jobs) == ["a", "b"]
    assert map_threads(str, [], n_jobs) == []


def test_none_is_one_thread_unless_a_configuration_says_otherwise():
    def name(_):
        return threading.current_thread().name

    here = threading.current_thread().name
    assert set(map_threads(name, range(4), None)) == {here}
    assert set(map_threads(name, range(1), 2)) == {here}  # one item is not worth a thread
    with joblib.parallel_config(n_jobs=2):
        assert here not in map_threads(name, range(4), None)


def test_an_error_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        map_threads(lambda i: 1 // i, range(3), 2)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_two_functions_return_their_own_results_and_errors(n_jobs):
    assert both(lambda: "first", lambda: 2, n_jobs) == ("first", 2)
    with pytest.raises(ZeroDivisionError):
        both(lambda: 1, lambda: 1 // 0, n_jobs)
