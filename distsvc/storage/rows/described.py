"""The form of features that are saved with a model."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict

from distsvc.errors.forms import Form


class DescribedFeature(Form):
    """A feature that JSON holds as its fields; see `distsvc.storage.rows.features.Feature`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    column: str
    one_hot: ClassVar[bool] = False

    @property
    def names(self) -> tuple[str, ...]:
        """The column's own name."""
        return (self.column,)

    @property
    def shown(self) -> str:
        """The column's own name."""
        return self.column

    @property
    def whole(self) -> str | None:
        """Nothing, of a single column."""
        return None

    def fits_float32(self, kind: str) -> bool:
        """Return False: the numbers are computed in float64."""
        return False

    def values(self, array: pa.Array) -> np.ndarray:
        """Return the numbers (n,) or (n, len(names))."""
        raise NotImplementedError
