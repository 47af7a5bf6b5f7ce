"""The few exceptions that a user can meet, each with the exit code that a scheduler sees."""

import re

LONGEST_WORD, LONGEST_TEXT = 300, 2000
"""Characters of a word and of a message that are shown; of longer ones the ends are."""


def one_line(text: str) -> str:
    r"""Return a text as one line that is safe to print, as `repr` would: no control characters.

    Line breaks, terminal escapes, marks of writing direction and lone surrogates become escapes
    such as ``\n``. A long word (a number of 5,000 digits, a name of a megabyte) and a long text
    lose their middle.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str

    See Also
    --------
    shown : A value as messages quote it.

    Examples
    --------
    >>> from distsvc.errors import one_line
    >>> print(one_line("two\nlines"))
    two\nlines

    """
    if len(text) > LONGEST_WORD:
        text = re.sub(
            rf"\S{{{LONGEST_WORD + 1},}}", lambda word: _ends(word[0], LONGEST_WORD), text
        )
        text = _ends(text, LONGEST_TEXT)
    return text if text.isprintable() else "".join(map(_printable, text))


def shown(value: object) -> str:
    """Return a value as messages quote it, shortened; where Python does not spell it, its type.

    Parameters
    ----------
    value : object
        Any value.

    Returns
    -------
    str

    See Also
    --------
    one_line : A whole message in one line.

    Examples
    --------
    >>> from distsvc.errors import shown
    >>> shown("a name")
    "'a name'"

    """
    try:
        return _ends(repr(value), LONGEST_WORD)
    except (ValueError, RecursionError):  # too many digits or brackets
        return f"a {type(value).__name__} too long to show"


def _ends(text: str, most: int) -> str:
    """Return a text without its middle where it has more than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2 - 1
    return f"{text[:half]}…{text[-half:]}"


def _printable(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]


class DistsvcError(Exception):
    """Base of every error that the command line reports in one line instead of a traceback.

    Attributes
    ----------
    exit_code : int
        What a command ends with.

    See Also
    --------
    DataError, InputNotFoundError, TemporaryError, JobFileError : The commonest.

    """

    exit_code = 1

    def __str__(self) -> str:
        """Return the message as one line, whatever it quotes."""
        return one_line(super().__str__())


class DataError(DistsvcError):
    """The input can be found but not used: a missing column, NaN, an unreadable file.

    See Also
    --------
    EmptyInputError : There are no rows.
    UnusableRowsError : Rows that an estimator refuses.

    """

    exit_code = 65


class EmptyInputError(DataError):
    """The input has no rows, or none that can be used.

    See Also
    --------
    SkippedError : The same where an empty input is to be skipped.

    """


class UnusableRowsError(DataError, ValueError):
    """Rows that an estimator can't learn from: not finite, or too large for its arithmetic.

    See Also
    --------
    ParameterError : A parameter of an estimator is not allowed.

    """


class InputNotFoundError(DistsvcError):
    """No file, folder or array at the path that the job names.

    See Also
    --------
    SkippedError : The same where a missing input is to be skipped.

    """

    exit_code = 66


class SkippedError(DistsvcError):
    """The input is not there yet, or empty, and such a run is to be skipped.

    See Also
    --------
    InputNotFoundError, EmptyInputError : The same where nothing is to be skipped.

    """

    exit_code = 99


class PartitionFailedError(DistsvcError):
    """One partition keeps failing for a reason that is neither its data nor the cluster.

    See Also
    --------
    TemporaryError : Scheduler or workers were lost.

    """

    exit_code = 70


class TemporaryError(DistsvcError):
    """The scheduler, the workers or a store went away; the same command may succeed later.

    See Also
    --------
    PartitionFailedError : One partition fails, again and again.

    """

    exit_code = 75


class InputNotReadyError(TemporaryError):
    """The input is not complete: the file that ``input.ready`` names is not there yet.

    See Also
    --------
    SkippedError : The same with ``skip_missing``.

    Examples
    --------
    >>> import distsvc
    >>> from distsvc.errors import InputNotReadyError
    >>> job = {
    ...     "input": {"path": "date=2026-11-20", "ready": "_SUCCESS"},
    ...     "output": {"path": "out/later"},
    ... }
    >>> try:
    ...     run = distsvc.run(job)
    ... except InputNotReadyError as error:
    ...     print(error)
    input.path: not there yet: date=2026-11-20/_SUCCESS

    """


class CheckFailedError(DistsvcError):
    """A check of the job failed; the result is kept beside what is published.

    Attributes
    ----------
    report : distsvc.report.content.report.Report or None
        Of that result.
    page : str
        The path or URL of the page of that result; empty if it is not known.

    See Also
    --------
    distsvc.load : What is published still.

    """

    exit_code = 76
    report: object = None
    page: str = ""


class OutputPermissionError(DistsvcError):
    """The output path can't be written.

    See Also
    --------
    TemporaryError : The disk is full.

    """

    exit_code = 77


class JobFileError(DistsvcError):
    """The job file, or what is already published at its output, does not allow the run.

    See Also
    --------
    ParameterError : The same of a parameter of an estimator.

    """

    exit_code = 78


class MissingExtraError(JobFileError):
    """A package is not installed that comes with an extra of distsvc; the message names both.

    See Also
    --------
    JobFileError : What else a run asks for and does not get.

    """


class ParameterError(JobFileError, ValueError):
    """A parameter of an estimator is not allowed; only checks of parameters raise it.

    See Also
    --------
    UnusableRowsError : Rows that an estimator refuses.

    """
