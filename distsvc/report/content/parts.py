"""The base of all parts of ``report.json``, and the types of their fields.

Unknown numbers are None, and NaN reads as None. Fields with a default may be missing from a file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from distsvc.errors.forms import Form


def _known(number: float | None) -> float | None:
    return None if number is None or math.isnan(number) else number


def _finite(number: object) -> object:
    odd = number is None or (isinstance(number, float) and not math.isfinite(number))
    return 0.0 if odd else number


Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""A count."""

Label = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
"""A cluster's label, or the number of a branch."""

Number = Annotated[float, Field(allow_inf_nan=False)]
"""A finite number."""

Cost = Annotated[float, Field(ge=0, le=1e15)]
"""Seconds, or MB."""

Known = Annotated[float | None, AfterValidator(_known)]
"""A number, or None where it is not known."""

Finite = Annotated[float, BeforeValidator(_finite)]
"""A finite number; None, NaN and infinity read as 0."""


def check_lengths(*parts: Sized) -> None:
    """Raise ValueError unless all lists have the same length."""
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise ValueError(f"expected lists as long as each other, found the lengths {lengths}")


_UNSAID = "unsaid"
Value = TypeVar("Value")
Unsaid = Annotated[Value, _UNSAID]
"""A field that is left out of the JSON if it has its default."""


class ReportPart(Form):
    """A part of the report."""

    _equally_long: ClassVar[tuple[str, ...]] = ()
    """Names of the lists that belong together item by item."""

    @model_validator(mode="after")
    def _check_equally_long(self) -> Self:
        check_lengths(*(getattr(self, name) for name in self._equally_long))
        return self

    @model_serializer(mode="wrap")
    def _said(self, dump: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        fields = type(self).model_fields.items()
        unsaid = {name: field.default for name, field in fields if _UNSAID in field.metadata}
        left_out = {name for name, default in unsaid.items() if getattr(self, name) == default}
        return {name: value for name, value in dump(self).items() if name not in left_out}


Some = TypeVar("Some", bound=ReportPart)


def relabel(part: Some, ids: Sequence[int]) -> Some:
    """Return a part with ids in place of labels, in every field `label`; labels are indices."""
    known = {name: _relabelled(name, value, ids) for name, value in part}
    return part.model_copy(update={k: v for k, v in known.items() if v is not None})


def _relabelled(name: str, value: Any, ids: Sequence[int]) -> Any:
    """Return the new value of a field, None if it stays."""
    if isinstance(value, ReportPart):
        return relabel(value, ids)
    if name == "label" and value is not None:
        return [ids[one] for one in value] if isinstance(value, list) else ids[value]
    if isinstance(value, list) and value and isinstance(value[0], ReportPart):
        return [relabel(one, ids) for one in value]
    return None
