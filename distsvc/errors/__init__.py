"""The exceptions that a user can meet, each with the exit code of the command line."""

import math
import re

LONGEST_WORD, LONGEST_TEXT = 300, 2000
"""Maximum characters of a word and of a message; longer ones lose their middle."""


def one_line(text: str) -> str:
    """Return a text as one line, shortened; line ends and unprintable characters become escapes."""
    if len(text) > LONGEST_WORD:
        text = re.sub(
            rf"\S{{{LONGEST_WORD + 1},}}", lambda word: _shortened(word[0], LONGEST_WORD), text
        )
        text = _shortened(text, LONGEST_TEXT)
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def shown(value: object) -> str:
    """Return the shortened `repr` of a value; its type if Python can't print the value."""
    try:
        return _shortened(repr(value), LONGEST_WORD)
    except (ValueError, RecursionError):  # too many digits or brackets
        return f"a {type(value).__name__} too long to show"


def times_in_words(factor: float) -> str:
    """Return a factor in words, such as ``about 100 times`` or ``about 1/1,000 of``."""
    inverse = factor < 1.0
    size = 1.0 / factor if inverse else factor
    power = 10.0 ** round(math.log10(size))
    rounded = power if 0.9 <= size / power <= 1.1 else float(f"{size:.2g}")
    return f"about 1/{rounded:,.10g} of" if inverse else f"about {rounded:,.10g} times"


def things(number: int, name: str) -> str:
    """Format a number with its noun: "1 row", "2,000 rows"."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _shortened(text: str, most: int) -> str:
    half = most // 2 - 1
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


class DistsvcError(Exception):
    """Base of all errors that the command line reports in one line instead of a traceback.

    Attributes
    ----------
    exit_code : int
        The exit code of a command that ends with this error.

    """

    exit_code = 1

    def __str__(self) -> str:
        """Return the message as one line, formatted by `one_line`."""
        return one_line(super().__str__())


class DataError(DistsvcError):
    """The input exists but can't be used: a missing column, NaN, an unreadable file."""

    exit_code = 65


class EmptyInputError(DataError):
    """The input has no usable rows."""


class UnusableRowsError(DataError, ValueError):
    """Rows that an estimator can't use: not numbers, not finite, or too large for its kernels."""


class InputNotFoundError(DistsvcError):
    """No file, folder or array exists at the path that the job names."""

    exit_code = 66


class SkippedError(DistsvcError):
    """The input is missing or empty, and the command skips such a run (``--skip-missing``)."""

    exit_code = 99


class PartitionFailedError(DistsvcError):
    """A task fails again and again, for example because it needs more memory than a worker has."""

    exit_code = 70


class TemporaryError(DistsvcError):
    """The scheduler, the workers or a store went away; the same command may succeed later."""

    exit_code = 75


class InputNotReadyError(TemporaryError):
    """The input is incomplete: the file that ``input.ready`` names does not exist yet."""


class CheckFailedError(DistsvcError):
    """A check of the job failed; the result is stored as a candidate and not published.

    Attributes
    ----------
    report : distsvc.report.content.report.Report or None
        The report of the candidate.
    page : str
        The path or URL of the candidate's page; empty if it is not known.

    """

    exit_code = 76
    report: object = None
    page: str = ""


class OutputPermissionError(DistsvcError):
    """The output path can't be written."""

    exit_code = 77


class JobFileError(DistsvcError):
    """The job file has an error, or it does not fit the result published at its output path."""

    exit_code = 78


class InterruptedRunError(JobFileError):
    """An interrupted run at the output can't be resumed; ``--fresh`` starts over."""


class MissingExtraError(JobFileError):
    """An optional package is not installed; the message names the package and its extra."""


class ParameterError(JobFileError, ValueError):
    """A parameter of an estimator has a value that is not allowed."""
