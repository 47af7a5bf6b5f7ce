"""Strict pydantic models of JSON in files, and their errors in words."""

import re
from collections.abc import Container
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from distsvc.errors import DataError, shown


class Form(BaseModel):
    """Base of strict models of JSON in a file: no value is converted."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)


Some = TypeVar("Some", bound=BaseModel)


def parsed(
    form: type[Some],
    content: object,
    name: str,
    whole: str = "the content",
    unnamed: Container[str] = (),
) -> Some:
    """Return the model of JSON that was read from the file `name`.

    `DataError` names the file and the keys that lead to the first wrong field. Keys in `unnamed`
    are omitted; `whole` is the name if no key is left.
    """
    try:
        return form.model_validate(content)
    except ValidationError as error:
        first, n_more = error.errors(include_url=False)[0], error.error_count() - 1
        steps = [str(step) for step in first["loc"] if step not in unnamed]
        fault = " is missing" if first["type"] == "missing" else f": {worded(first)}"
        more = f" (and {n_more} more)" if n_more else ""
        raise DataError(f"{name}: {'.'.join(steps) or whole}{fault}{more}") from None


def worded(fault: ErrorDetails) -> str:
    """Return the expected and the found value in words, from an error of pydantic."""
    if fault["type"] == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    expected = re.sub(r"^(Input should be|List should have) | or instance of .*", "", fault["msg"])
    return f"expected {expected}, found {shown(fault['input'])}"
