"""Each cause of an error has a class for Python and an exit code for schedulers."""

import inspect
import pickle

import pytest

from distsvc import errors
from distsvc.errors import DistsvcError

CODES = {
    "DistsvcError": 1,
    "DataError": 65,
    "EmptyInputError": 65,
    "UnusableRowsError": 65,
    "InputNotFoundError": 66,
    "SkippedError": 99,
    "PartitionFailedError": 70,
    "TemporaryError": 75,
    "InputNotReadyError": 75,
    "CheckFailedError": 76,
    "OutputPermissionError": 77,
    "JobFileError": 78,
    "InterruptedRunError": 78,
    "MissingExtraError": 78,
    "ParameterError": 78,
}
CLASSES = dict(inspect.getmembers(errors, inspect.isclass))


def test_every_error_has_its_exit_code():
    assert {name: error.exit_code for name, error in CLASSES.items()} == CODES


@pytest.mark.parametrize("name", CODES)
def test_an_error_comes_back_from_a_worker_as_it_was(name):
    error = pickle.loads(pickle.dumps(CLASSES[name]("what was found")))
    assert type(error) is CLASSES[name]
    assert isinstance(error, DistsvcError)
    assert str(error) == "what was found"


@pytest.mark.parametrize(
    ("name", "fault"), [("ParameterError", "JobFileError"), ("UnusableRowsError", "DataError")]
)
def test_errors_of_estimators_are_value_errors_too(name, fault):
    assert issubclass(CLASSES[name], ValueError)
    assert issubclass(CLASSES[name], CLASSES[fault])
    assert not issubclass(CLASSES[fault], ValueError)
