"""What every part of ``report.json`` is: a frozen pydantic model that checks types strictly.

Numbers that can be unknown are None, and NaN reads as None. Fields with a default may be missing
from a file.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    SerializerFunctionWrapHandler,
    model_serializer,
)


def _known(number: float | None) -> float | None:
    return None if number is None or math.isnan(number) else number


def _finite(number: object) -> object:
    odd = number is None or (isinstance(number, float) and not math.isfinite(number))
    return 0.0 if odd else number


Known = Annotated[float | None, AfterValidator(_known)]
"""A number, or None where it is not known."""

Finite = Annotated[float, BeforeValidator(_finite)]
"""A number; what is none reads as 0."""


class Part(BaseModel):
    """A part of the report.

    Attributes
    ----------
    unsaid : tuple of str
        Fields that are not in the JSON where they hold their default.

    """

    model_config = ConfigDict(frozen=True, strict=True)
    unsaid: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _said(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        left_out = {name for name in self.unsaid if getattr(self, name) == fields[name].default}
        return {name: value for name, value in dump(self).items() if name not in left_out}
