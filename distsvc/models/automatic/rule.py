"""The rule of a tree of hyperplanes whose scores are the level tree's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from distsvc.models.hyperplanes.rule import TreeRule
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import ScoreWords
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored


@dataclass(frozen=True)
class ScoredTreeRule(Scored, TreeRule):
    """The clusters of a tree of hyperplanes, and outliers by the level tree's scores."""

    form: ClassVar[str] = "imdh-scored"
    meanings: ClassVar[Mapping[str, str]] = {
        "label": TreeRule.meanings["label"] + "; outliers have one too",
        "score": LevelRule.meanings["score"],
        "outlier": LevelRule.meanings["outlier"],
    }
    words: ClassVar[ScoreWords] = LevelRule.words

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Return label, score and outlier (n,) of centred rows Z (n, d) float32."""
        score = self.unrounded_scores(Z).astype(np.float32)
        return {"label": self._cut.label(Z)[0], "score": score, "outlier": score < 0.0}

    def facts(self) -> Facts:
        """Return the fields that are not arrays, and the number of clusters by its own name."""
        names = ("few_gamma", "most_gamma", "score_limit")
        return super().facts() | {name: getattr(self, name) for name in names}

    def check(self) -> None:
        """Raise DataError where the tree's fields or the score's do not go together."""
        super().check()
        self.check_components()
