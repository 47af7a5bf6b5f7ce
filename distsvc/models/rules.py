"""What labels rows, whatever the algorithm: a few arrays and facts that are saved and shared.

A rule is all of a model that workers and later tables need. Every algorithm ends in one, and a
published model is a rule with the scaling of its rows (`distsvc.models.scaling`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np


@dataclass(frozen=True)
class ScoreWords:
    """What the page says of a rule's score and of its outliers.

    Attributes
    ----------
    has_outliers : bool
        Whether the rule tells rows inside from rows outside.
    meaning : str
        A paragraph, or nothing for what the page says of decision values.
    heading, axis : str
        The heading of the scores' histogram, and what stands below its axis: nothing for what the
        page says of decision values.
    boundary : float or None
        The score that divides rows inside from rows outside.

    """

    has_outliers: bool = True
    meaning: str = ""
    heading: str = "Inside or outside"
    axis: str = ""
    boundary: float | None = 0.0


class Rule(ABC):
    """Labels rows by its fields, which are arrays, or facts: what JSON can hold.

    A subclass is a frozen dataclass.

    Attributes
    ----------
    form : str
        The rule's name in saved models.
    float64 : bool
        Whether prepared rows are float64; kernels want float32.
    meanings : mapping of str to str
        What the published columns ``label``, ``score`` and ``outlier`` are.
    words : ScoreWords

    """

    form: ClassVar[str]
    float64: ClassVar[bool] = False
    meanings: ClassVar[Mapping[str, str]]
    words: ClassVar[ScoreWords] = ScoreWords()

    @property
    @abstractmethod
    def n_clusters(self) -> int:
        """Clusters; labels are below it."""

    @abstractmethod
    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the published columns of prepared rows Z (n, d) by name.

        ``label`` (n,) int32, ``score`` (n,) float32 and ``outlier`` (n,) bool are among them. The
        values of a row depend on no other row.
        """

    def unrounded_scores(self, Z: np.ndarray) -> np.ndarray:
        """Return the scores (n,) of prepared rows Z (n, d) as precise as the rule has them."""
        return self.label(Z)["score"]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the fields that are arrays, by name."""
        return {n: v for n, v in self._values().items() if isinstance(v, np.ndarray)}

    def facts(self) -> dict[str, Any]:
        """Return the other fields, by name."""
        return {n: v for n, v in self._values().items() if not isinstance(v, np.ndarray)}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the rule that `facts` and `arrays` hold, among others."""
        known = {**facts, **arrays}
        return cls(**{f.name: known[f.name] for f in fields(cls)})  # type: ignore[arg-type]

    def _values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
