"""The mapping of every exception to an exit code and one line of text.

Exceptions of other packages are recognised by name and attributes, without importing the packages.
"""

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distsvc.errors import (
    DataError,
    DistsvcError,
    InputNotFoundError,
    JobFileError,
    OutputPermissionError,
    PartitionFailedError,
    TemporaryError,
    one_line,
)
from distsvc.errors.urls import bare_text, bare_url

DEFECT, INTERRUPTED = 1, 130
"""Exit codes of an unexpected exception and of SIGINT."""

CREDENTIALS = (
    "give credentials in the environment, or in a file that the store's library reads, such as "
    "~/.aws/credentials"
)

_NOT_THERE = {"404", "410", "NoSuchKey", "NoSuchBucket", "NoSuchVersion"}
_FORBIDDEN = {
    "403", "AccessDenied", "AccountProblem", "AllAccessDisabled", "InvalidObjectState",
}  # fmt: skip
_REFUSED = {
    "401", "407", "ExpiredToken", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken",
    "RequestTimeTooSkewed", "SignatureDoesNotMatch", "TokenRefreshRequired",
}  # fmt: skip
_BUSY = {
    "408", "425", "429", "InternalError", "OperationAborted", "RequestTimeout",
    "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException",
}  # fmt: skip

_NO_CREDENTIALS = {
    "CredentialRetrievalError", "NoCredentialsError", "PartialCredentialsError", "ProfileNotFound",
    "SSOError", "TokenRetrievalError", "DefaultCredentialsError",
}  # fmt: skip
_STORE_IS_AWAY = {  # errors of aiohttp, botocore, requests and urllib3
    "ClientConnectionError", "ClientPayloadError", "HTTPClientError", "ConnectionError",
    "IncompleteRead", "ProtocolError", "ResponseStreamingError", "Timeout", "TimeoutError",
    "gaierror",
}  # fmt: skip
_CLUSTER_IS_AWAY = {
    "CancelledError", "CommClosedError", "FutureCancelledError", "NoValidWorkerError",
    "NoWorkerError", "WorkerStartTimeoutError",
}  # fmt: skip

_AWAY = {
    errno.EAGAIN, errno.EBUSY, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET,
    errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EIO, errno.EMFILE, errno.ENETDOWN, errno.ENETRESET,
    errno.ENETUNREACH, errno.ENFILE, errno.ENOLCK, errno.ENOMEM, errno.ENOTCONN, errno.EPIPE,
    errno.EREMOTEIO, errno.ESHUTDOWN, errno.ESTALE, errno.ETIMEDOUT,
}  # fmt: skip
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_SUCH_PLACE = {errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST}
_HELP = {
    errno.EMFILE: "; raise the limit of open files, as with ulimit -n 4096",
    errno.ENFILE: "; the machine's limit of open files is reached: raise it (sysctl fs.file-max)",
}
"""Advice that is added to the message of an `OSError`, by its number."""
_CODE = re.compile(r"<Code>(\w+)</Code>")  # in obstore's messages
_STATUS = re.compile(r"status code: (\d{3})")
_DEFECTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, NotImplementedError,
    RecursionError, TypeError,
)  # fmt: skip


def exit_code_and_message(error: BaseException | None) -> tuple[int, str]:
    """Return an error's exit code and message, in one line without secrets; 0 and "" for None."""
    if error is None:
        return 0, ""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else DEFECT
        return code, f"stopped, exit code {code}"
    if not isinstance(error, Exception):
        return INTERRUPTED, "interrupted"
    known = classify_error(error)
    return (DEFECT, named(error)) if known is None else (known.exit_code, str(known))


def named(error: BaseException) -> str:
    """Return the name of an error and its message, in one line."""
    return one_line(bare_text(f"{type(error).__name__}: {error}"))


def classify_error(
    error: BaseException,
    *,
    reading: str | Path | None = None,
    writing: str | Path | None = None,
) -> DistsvcError | None:
    """Return the error of distsvc that describes an exception and its causes to a user.

    None if the exception must come from a defect in distsvc. `reading` or `writing` is the path or
    URL that was accessed, if it is known.
    """
    if isinstance(error, DistsvcError):
        return error
    name = bare_url(str(reading or writing or getattr(error, "filename", None) or "a file"))
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return JobFileError(f"expected a path without zero bytes (NUL), found {one_line(name)}")
    chain = list(_chain(error))
    for one in chain:
        found = _of_store(one, name)
        if isinstance(found, DataError | InputNotFoundError) and writing is not None:
            return OutputPermissionError(str(found).replace("to read", "to write"))
        if found is not None:
            return found
    for one in chain:
        if type(one).__name__ == "KilledWorker":
            return PartitionFailedError(
                "several workers ended at the same task, probably for want of memory; lower "
                f"cluster.partition_rows or cluster.block_rows: {_words(one)}"
            )
        if isinstance(one, MemoryError):
            # Not temporary: the same command needs as much memory again.
            return PartitionFailedError(
                "out of memory; lower cluster.block_rows or cluster.partition_rows"
            )
    of_system = next((one for one in chain if isinstance(one, OSError)), None)
    if of_system is not None:
        is_defect = isinstance(error, _DEFECTS)
        return None if is_defect else _of_system(of_system, name, bool(reading), bool(writing))
    if reading is not None and (
        isinstance(error, (ValueError, EOFError))
        or "ArrowException" in {kind.__name__ for kind in type(error).__mro__}
    ):
        return DataError(f"can't read {name}: {_words(error)}")
    return None


def own_fault(error: BaseException, path: str | Path) -> DistsvcError:
    """Return the error for a file that this run wrote, and that it can't read back.

    This is no fault of the input, so it is a `TemporaryError` or an `OutputPermissionError`.
    """
    known = classify_error(error, reading=path)
    if isinstance(known, TemporaryError | OutputPermissionError):
        return known
    allowed = isinstance(error, OSError) and error.errno not in _NOT_ALLOWED
    if isinstance(known, DataError) and not allowed:
        return OutputPermissionError(str(known))
    return TemporaryError(f"can't read {path}: {_words(error)}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes.

    The context of an error counts as its cause if a library's own class of errors wraps it.
    """
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        yield following
        seen.add(id(following))
        wraps = type(following).__module__ != "builtins" and not following.__suppress_context__
        following = following.__cause__ or (following.__context__ if wraps else None)


def _of_store(error: BaseException, name: str) -> DistsvcError | None:
    """Return the error for a failed request to a store or scheduler; None for other failures."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    codes = _answers(error)
    if kinds & _CLUSTER_IS_AWAY:
        return TemporaryError(
            f"lost the connection to the Dask scheduler or workers: {_words(error)}"
        )
    if codes & _NOT_THERE:
        return InputNotFoundError(f"{name} does not exist")
    if codes & _REFUSED or kinds & _NO_CREDENTIALS:
        why = "no credentials" if kinds & _NO_CREDENTIALS else "the credentials are refused"
        return DataError(f"no permission to read {name}: {why}{_said(codes)}; {CREDENTIALS}")
    if codes & _FORBIDDEN:
        return DataError(f"no permission to read {name}{_said(codes)}")
    if codes & _BUSY or any(code.isdigit() and int(code) >= 500 for code in codes):
        return TemporaryError(f"can't reach {name}: the store is busy or broken{_said(codes)}")
    if "SSLCertVerificationError" in kinds or "ClientConnectorCertificateError" in kinds:
        return DataError(f"can't read {name}: {_words(error)}")
    if _is_obstores(error) and "GenericError" in kinds:
        return TemporaryError(f"can't reach {name}: {_words(error)}")
    if kinds & _STORE_IS_AWAY and "BrokenPipeError" not in kinds:
        return TemporaryError(f"can't reach {name}: {_words(error)}")
    return None


def _answers(error: BaseException) -> set[str]:
    """Return the answer of a store to a failed request, in a set: an error code or HTTP status.

    Examples are {"NoSuchKey"} and {"404"}. The set is empty if the error has neither.
    """
    if _is_obstores(error):
        said = _CODE.search(str(error)) or _STATUS.search(str(error))
        return {said[1]} if said else set()
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = response.get("Error", {}).get("Code")
        return {str(code)} if code else {str(status)} if status else set()
    found: Any = getattr(response, "status_code", None)
    for name in ("code", "status_code", "status"):
        if name in vars(error):  # aiohttp has a property `code`, which warns
            found = vars(error)[name]
    return {str(found)} if isinstance(found, int) and 400 <= found < 600 else set()


def _of_system(error: OSError, name: str, reading: bool, writing: bool) -> DistsvcError | None:
    """Return distsvc's error for an `OSError`; None if only a defect in distsvc explains it."""
    number, reason = error.errno, f" ({error.strerror})" if error.strerror else ""
    short = number is None and "requested and" in str(error)  # NumPy's error if a disk is full
    if number in _NO_SPACE or (short and writing):
        return TemporaryError(f"no space left to write {name}{reason}")
    if number == errno.EROFS or isinstance(error, PermissionError) or number in _NOT_ALLOWED:
        if reading:
            return DataError(f"no permission to read {name}")
        return OutputPermissionError(f"no permission to write {name}{reason}")
    if writing:
        kind = OutputPermissionError if number in _NO_SUCH_PLACE else TemporaryError
        return kind(f"{name} can't be written: {_words(error)}")
    if number in _AWAY:
        return TemporaryError(f"can't reach {name}: {_words(error)}")
    if reading or number == errno.ENAMETOOLONG:
        if isinstance(error, FileNotFoundError):
            return InputNotFoundError(f"{name} does not exist")
        return DataError(f"can't read {name}: {_words(error)}")
    return None


def _is_obstores(error: BaseException) -> bool:
    """Return True if obstore raised the error, even if it is a `FileNotFoundError`."""
    return type(error).__module__.startswith("obstore") or (
        isinstance(error, FileNotFoundError) and str(error).startswith("Object at location")
    )


def _said(codes: set[str]) -> str:
    said = ", ".join(f"HTTP {code}" if code.isdigit() else code for code in sorted(codes))
    return f" ({said})" if said else ""


def _words(error: BaseException) -> str:
    """Return the message of an error in one line, or its type if there is none."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = text.partition("\n\nDebug source")[0]  # of obstore
    help_ = _HELP.get(error.errno or 0, "") if isinstance(error, OSError) else ""
    return (bare_text(" ".join(text.split())) or type(error).__name__) + help_
