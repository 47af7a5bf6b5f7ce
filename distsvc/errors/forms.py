"""Validation of JSON files by pydantic models, with readable error messages."""

import re
from collections.abc import Container
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from distsvc.errors import DataError, shown


class Form(BaseModel):
    """Base of the pydantic models of JSON files; a value of another type is an error."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)


Some = TypeVar("Some", bound=BaseModel)


def parsed(
    form: type[Some],
    content: object,
    name: str,
    whole: str = "the content",
    unnamed: Container[str] = (),
) -> Some:
    """Return an instance of `form` for JSON content that was read from the file `name`.

    `DataError` names the file and the first wrong field by its keys, such as "model.seed". Keys in
    `unnamed` are left out of this path. If the path is empty, `whole` is named instead.
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
    """Return an error of pydantic as text, such as "expected a valid integer, found 'x'"."""
    if fault["type"] == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    expected = re.sub(r"^(Input should be|List should have) | or instance of .*", "", fault["msg"])
    return f"expected {expected}, found {shown(fault['input'])}"
