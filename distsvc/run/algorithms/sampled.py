"""Algorithms that the driver trains on a sample in memory: the papers' baselines, and mixtures.

1. The survey draws a sample, which has all rows of a smaller table. A mixture learns from the pilot
   only.
2. ``train``: the driver fits the estimator.
3. The rule, a few arrays, labels the table.
"""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from distsvc.job.config import Job
from distsvc.job.parameters import Given, check_parameters
from distsvc.models.baselines.rules import Centres, Splits
from distsvc.models.mixture_clustering.engine import MixtureEngine
from distsvc.models.mixture_clustering.rule import ComponentRule
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import State
from distsvc.models.rows.sampling import PILOT_ROWS
from distsvc.models.rows.threads import one_thread
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import TRAINED, AlgorithmJob
from distsvc.run.learning.stream import SCIKIT_LEARN, Memory, Sizes, read_sample, sample_memory
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import Result
from distsvc.run.work.phases import Steps
from distsvc.storage.rows.blocks import Table

if TYPE_CHECKING:
    from distsvc.models.baselines.estimator import Baseline

MAX_FITTED_ROWS = 200_000
"""Approximate maximum number of random rows on which a job fits a baseline."""

FITTED = ("inertia_", "objective_", "n_iter_")
"""Attributes that the report shows, if the estimator has them."""


class SampledEngine:
    """Fits a baseline on a sample; its rule labels the table.

    For the sample's rows X in key order, the job's labels equal ``estimator.fit(X).labels_``.
    """

    n_rows: int  # number of rows of the table
    centre: np.ndarray  # (d,) float64: origin of the prepared rows
    rule: Rule  # set by `fit_sample`

    def __init__(self, estimator: "Baseline", n_features: int = 1):
        self.estimator, self.n_features = estimator, n_features
        self.notes: list[str] = []
        self._found: dict[str, float] = {}

    def key_ranges(self, n_rows: int) -> list[tuple[int, int]]:
        most = sampling.most_rows(self.n_features)
        return sampling.key_blocks(n_rows, min(n_rows, MAX_FITTED_ROWS, most))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Set the origin to 0, since `fit` centres the rows itself."""
        self.n_rows = n_rows
        self.centre = np.zeros(pilot.shape[1])

    def fit_sample(self, X: np.ndarray) -> Rule:
        """Fit the estimator to the sample's rows X (n, d) and return the rule.

        Warnings of the estimator are added to `notes`.
        """
        # One thread: sums of several threads have no fixed order, and labels would depend on it.
        self.estimator._keeps_rows, self.estimator._in_order = False, True
        with one_thread(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model = self.estimator.fit(X)
            self.rule = model._rule()
        self.notes += [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        found = {name[:-1]: getattr(model, name) for name in FITTED if hasattr(model, name)}
        self._found = {"n_samples": len(model.labels_), **found}
        return self.rule

    def fitted_facts(self) -> Facts:
        n = self._found["n_samples"]
        facts = {"n_clusters": self.rule.n_clusters, "n_samples": n}
        return facts | {"share_sampled": n / self.n_rows} | self._found

    def solved(self) -> State:
        facts = {"form": self.rule.form, "found": self._found, "notes": list(self.notes)}
        return facts | self.rule.facts(), self.rule.arrays()

    def restore(self, facts: Facts, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the rule, its facts and the notes from the facts and arrays of `solved`."""
        rule = next(rule for rule in (Centres, Splits) if rule.form == facts["form"])
        self.rule = rule.restored(facts, arrays)
        self._found, self.notes = dict(facts["found"]), list(facts["notes"])


class Sampled(AlgorithmJob):
    """A baseline estimator as a job: the driver fits it to a sample in memory."""

    rules = (Centres, Splits)
    engine: SampledEngine

    def __init__(self, parameters: Given, job: Job, table: Table):
        from distsvc.models.baselines.estimator import Baseline
        from distsvc.models.estimators import ESTIMATORS

        estimator = ESTIMATORS[job.model.algorithm](**parameters)
        assert isinstance(estimator, Baseline)
        check_parameters(estimator.algorithm, estimator.get_params())
        super().__init__(parameters, SampledEngine(estimator, len(table.columns)))

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        def train() -> Result:
            _, X = read_sample(steps.run, dtype="float64")
            self.engine.fit_sample(X)
            return Result(*self.engine.solved(), rows=len(X))

        trained = steps.work_out(TRAINED, train)
        self.engine.restore(trained.facts, trained.arrays)
        return self.engine.rule

    def memory(self, sizes: Sizes) -> Memory:
        from distsvc.models.baselines.bico import BICO, POINTS_A_CLUSTER
        from distsvc.models.baselines.fuzzy import FuzzyCMeans

        clusters = self.parameters.get("n_clusters") or 1
        columns = 5 * clusters if isinstance(self.engine.estimator, FuzzyCMeans) else 0
        own = max(sizes.sample, 8 * columns * sizes.sample_rows)
        if isinstance(self.engine.estimator, BICO):
            own = 2 * sizes.row_bytes * (self.engine.estimator.size or POINTS_A_CLUSTER * clusters)
        return Memory(sample_memory(sizes, own) | SCIKIT_LEARN)


class MixtureJob(AlgorithmJob):
    """A mixture of normal distributions and categories as a job."""

    rules = (ComponentRule,)
    engine: MixtureEngine

    def __init__(self, parameters: Given, job: Job, table: Table):
        super().__init__(parameters, MixtureEngine(parameters, job.model.seed))

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        def train() -> Result:
            self.engine.learn()
            return Result(*self.engine.solved(), rows=len(survey.pilot))

        trained = steps.work_out(TRAINED, train)
        self.engine.restore(trained.facts, trained.arrays)
        return self.engine.rule

    def memory(self, sizes: Sizes) -> Memory:
        rows = min(PILOT_ROWS, sizes.sample_rows)
        # At most 100 arrays of posteriors: all starts of all shapes of covariances.
        own = 6.0 * sizes.row_bytes * rows + 8.0 * 100 * rows
        return Memory({"the pilot, and posteriors": own} | SCIKIT_LEARN)
