"""Forms of JSON in a file: pydantic models that check types strictly, and their errors in words."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from distsvc.errors import DataError, shown


class Form(BaseModel):
    """The form of JSON in a file, or of a part of it; nothing is converted."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)


Some = TypeVar("Some", bound=BaseModel)


def parsed(
    form: type[Some],
    content: object,
    name: str,
    whole: str = "the content",
    unnamed: Container[str] = (),
) -> Some:
    """Return the model that JSON holds; errors call the outermost value `whole`.

    Raises
    ------
    DataError
        The content has another form: says so of the file `name`, and names the first field that is
        wrong, without the steps of its place that are `unnamed`.

    """
    _check_text(content, name)
    try:
        return form.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{name}: {_explained(error, whole, unnamed)}") from None


def _check_text(content: object, name: str) -> None:
    """Refuse halves of characters, which JSON can escape and no file or page can hold."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        around = error.object[max(error.start - 20, 0) : error.end + 20]
        raise DataError(f"{name}: expected text in Unicode, found {shown(around)}") from None


def _explained(error: ValidationError, whole: str, unnamed: Container[str]) -> str:
    """Put the first fault into words, and count the others."""
    first, n_more = error.errors(include_url=False)[0], error.error_count() - 1
    steps = [str(step) for step in first["loc"] if step not in unnamed]
    place, more = ".".join(steps) or whole, f" (and {n_more} more)" if n_more else ""
    if first["type"] == "missing":
        return f"{place} is missing{more}"
    return f"{place}: {worded(first)}{more}"


def worded(fault: Mapping[str, Any]) -> str:
    """Return one of pydantic's errors in words: a value expected, and the value found."""
    if fault["type"] == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    expected = re.sub(r"^(Input should be|List should have) | or instance of .*", "", fault["msg"])
    return f"expected {expected}, found {shown(fault['input'])}"
