"""Every failure has one exit code and one line, whichever package it comes from."""

import errno
import socket
import ssl
import zipfile

import pytest

from distsvc.errors import (
    DataError,
    InputNotFoundError,
    OutputPermissionError,
    PartitionFailedError,
    TemporaryError,
)
from distsvc.errors.faults import classify_error, own_fault

URL = "https://me:pw@host/x?sig=abc"
SHOWN = "https://host/x"


def made(name, *bases, module="elsewhere", **attributes):
    """Return an error as another package would raise it."""
    error = type(name, bases or (Exception,), {"__module__": module})(f"{name} of {URL}")
    vars(error).update(attributes)
    return error


def boto(code, status=None):
    about = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return made("ClientError", response=about)


def caused(error, cause):
    error.__cause__ = cause
    return error


READING = [
    (OSError(errno.EIO, "disk"), TemporaryError),
    (OSError(errno.ESTALE, "gone"), TemporaryError),
    (OSError(errno.ENETUNREACH, "net"), TemporaryError),
    (OSError(errno.EINVAL, "what"), DataError),
    (PermissionError(errno.EACCES, "no"), DataError),
    (FileNotFoundError(errno.ENOENT, "no"), InputNotFoundError),
    (ConnectionResetError(), TemporaryError),
    (TimeoutError(), TemporaryError),
    (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), TemporaryError),
    (ssl.SSLCertVerificationError("self-signed"), DataError),
    (ValueError("not a table"), DataError),
    (EOFError(), DataError),
    *((made("ClientResponseError", status=code), DataError) for code in (401, 403)),
    *((made("ClientResponseError", status=code), InputNotFoundError) for code in (404, 410)),
    *(
        (made("ClientResponseError", status=code), TemporaryError)
        for code in (408, 425, 429, 500, 502, 503, 504)
    ),
    (caused(FileNotFoundError(URL), made("ClientResponseError", status=503)), TemporaryError),
    (caused(FileNotFoundError(URL), made("ClientResponseError", status=403)), DataError),
    (caused(FileNotFoundError(URL), made("ServerDisconnectedError", ConnectionError)),
     TemporaryError),
    *((boto(code), DataError) for code in ("AccessDenied", "ExpiredToken", "InvalidAccessKeyId")),
    (boto("SignatureDoesNotMatch", 403), DataError),
    (boto("NoSuchKey"), InputNotFoundError),
    (boto("NoSuchBucket", 404), InputNotFoundError),
    *((boto(c), TemporaryError) for c in ("SlowDown", "RequestTimeout", "InternalError", "503")),
    (caused(OSError(errno.EBUSY, "busy"), boto("SlowDown", 503)), TemporaryError),
    (caused(PermissionError("Access Denied"), boto("AccessDenied", 403)), DataError),
    (made("NoCredentialsError"), DataError),
    (made("EndpointConnectionError", type("HTTPClientError", (Exception,), {})), TemporaryError),
]  # fmt: skip


@pytest.mark.parametrize(("error", "expected"), READING)
def test_reading(error, expected):
    found = classify_error(error, reading=URL)
    assert type(found) is expected
    assert SHOWN in str(found)
    assert "\n" not in str(found)
    assert "pw" not in str(found)
    assert "abc" not in str(found)


@pytest.mark.parametrize(
    ("number", "expected", "message"),
    [
        (errno.ENOSPC, TemporaryError, "no space left to write out/x"),
        (errno.EDQUOT, TemporaryError, "no space left to write out/x"),
        (errno.EFBIG, TemporaryError, "no space left to write out/x"),
        (errno.EIO, TemporaryError, "out/x can't be written"),
        (errno.ESTALE, TemporaryError, "out/x can't be written"),
        (errno.ENOENT, TemporaryError, "out/x can't be written"),
        (errno.EACCES, OutputPermissionError, "no permission to write out/x"),
        (errno.EPERM, OutputPermissionError, "no permission to write out/x"),
        (errno.EROFS, OutputPermissionError, "no permission to write out/x"),
        (errno.ENOTDIR, OutputPermissionError, "out/x can't be written"),
        (errno.ENAMETOOLONG, OutputPermissionError, "out/x can't be written"),
    ],
)
def test_writing(number, expected, message):
    found = classify_error(OSError(number, "why"), writing="out/x")
    assert type(found) is expected
    assert str(found).startswith(message)


OWN = [
    (OSError(errno.EIO, "I/O"), TemporaryError, "can't reach out/x: I/O"),
    (OSError(errno.EMFILE, "too many"), TemporaryError, "raise the limit of open files, as with"),
    (OSError(errno.EINVAL, "odd"), TemporaryError, "can't read out/x: odd"),
    (FileNotFoundError(errno.ENOENT, "no"), TemporaryError, "can't read out/x: no"),
    (MemoryError(), TemporaryError, "can't read out/x: MemoryError"),
    (PermissionError(errno.EACCES, "no"), OutputPermissionError, "no permission to read out/x"),
    (DataError("no permission to read out/x"), OutputPermissionError, "no permission to read"),
    (InputNotFoundError("out/x does not exist"), TemporaryError, "out/x does not exist"),
    (TemporaryError("away"), TemporaryError, "away"),
]


@pytest.mark.parametrize(("error", "expected", "message"), OWN)
def test_a_file_of_a_runs_own_is_never_the_datas_fault(error, expected, message):
    found = own_fault(error, "out/x")
    assert type(found) is expected
    assert message in str(found)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "full", "out/x"), TemporaryError),
        (PermissionError(errno.EACCES, "no", "out/x"), OutputPermissionError),
        (made("CommClosedError", OSError, module="distributed.comm.core"), TemporaryError),
        (made("FutureCancelledError", module="distributed.client"), TemporaryError),
        (made("KilledWorker", module="distributed.scheduler"), PartitionFailedError),
        (ConnectionRefusedError(errno.ECONNREFUSED, "no"), TemporaryError),
        (MemoryError(), PartitionFailedError),
    ],
)
def test_errors_without_a_path_are_classified(error, expected):
    assert type(classify_error(error)) is expected
    if getattr(error, "filename", None):
        assert "out/x" in str(classify_error(error))


def raised_while_handling(error, other):
    try:
        try:
            raise other
        except type(other):
            raise error  # noqa: B904
    except type(error) as found:
        return found


@pytest.mark.parametrize(
    "error",
    [
        RecursionError(),
        KeyError("x"),
        ValueError("x"),
        zipfile.BadZipFile("x"),
        OSError(errno.EINVAL, "what"),
        FileNotFoundError(errno.ENOENT, "no", "x"),
        raised_while_handling(KeyError("x"), TimeoutError()),
        raised_while_handling(ValueError("x"), OSError(errno.ENOSPC, "full")),
    ],
)
def test_defects_are_not_classified(error):
    assert classify_error(error) is None


def test_a_folder_that_may_not_be_made_is_not_called_missing():
    error = raised_while_handling(PermissionError(errno.EACCES, "no"), FileNotFoundError())
    assert type(classify_error(error, writing="a/b")) is OutputPermissionError
