"""The few exceptions that a user can meet, each with the exit code that a scheduler sees."""


class DistsvcError(Exception):
    """Base of every error that the command line reports in one line instead of a traceback."""

    exit_code = 1


class DataError(DistsvcError):
    """The input can be found but not used: a missing column, NaN, an unreadable file."""

    exit_code = 65


class UnusableRowsError(DataError, ValueError):
    """Rows that an estimator can't learn from: not finite, or too large for its arithmetic."""


class InputNotFoundError(DistsvcError):
    """No file, folder or array at the path that the job names."""

    exit_code = 66


class PartitionFailedError(DistsvcError):
    """One partition keeps failing for a reason that is neither its data nor the cluster."""

    exit_code = 70


class TemporaryError(DistsvcError):
    """The scheduler, the workers or a store went away; the same command may succeed later."""

    exit_code = 75


class OutputPermissionError(DistsvcError):
    """The output path can't be written."""

    exit_code = 77


class JobFileError(DistsvcError):
    """The job file, or what is already published at its output, does not allow the run."""

    exit_code = 78


class ParameterError(JobFileError, ValueError):
    """A parameter of an estimator is not allowed; only checks of parameters raise it."""
