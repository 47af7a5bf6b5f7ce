"""Algorithms of jobs, one module each."""

from collections.abc import Callable

from distsvc.errors import DataError
from distsvc.job.config import Job
from distsvc.job.parameters import COMPOSED, Given, completed, composed
from distsvc.models.rules.joined import joined_form
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.engines import engine_for
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.algorithms.automatic import Automatic
from distsvc.run.algorithms.boundary import BoundaryModel
from distsvc.run.algorithms.hyperplanes import Hyperplanes
from distsvc.run.algorithms.level_tree import LevelTrees
from distsvc.run.algorithms.linear import PROBLEMS, Linear
from distsvc.run.algorithms.sampled import MixtureJob, Sampled
from distsvc.storage.rows.blocks import Table

ALGORITHMS: tuple[type[AlgorithmJob], ...] = (
    Automatic, LevelTrees, BoundaryModel, Hyperplanes, Linear, MixtureJob, Sampled,
)  # fmt: skip
RULE_FORMS = {rule.form: rule for algorithm in ALGORITHMS for rule in algorithm.rules}
RULE_FORMS |= {form.form: form for form in map(joined_form, RULE_FORMS.values())}
"""Classes of the rules of saved models, by form."""

BY_NAME: dict[str, Callable[[Given, Job, Table], AlgorithmJob]] = {
    "auto": Automatic, "imdh": Hyperplanes, "mixture": MixtureJob,
    **dict.fromkeys(PROBLEMS, Linear),
}  # fmt: skip
"""Algorithms by their names in a job; other names are baselines or support vector clustering."""


def rule_named(form: str) -> type[Rule]:
    """Return the class of rules with this form; DataError if there is none."""
    if form not in RULE_FORMS:
        raise DataError(f"fact algorithm: expected the form of a rule, found {form!r}")
    return RULE_FORMS[form]


def begin(job: Job, table: Table) -> AlgorithmJob:
    """Return the algorithm of a job with checked parameters; ParameterError for invalid ones."""
    name = job.model.algorithm
    parameters = completed(name, job.model.parameters())
    algorithm: AlgorithmJob
    if name in ("support-vector", *COMPOSED):
        whole = composed(name, parameters) if name in COMPOSED else parameters
        engine = engine_for(whole, job.model.seed)
        if isinstance(engine, LevelTreeEngine):
            algorithm = LevelTrees(parameters, engine, job, table)
        else:
            algorithm = BoundaryModel(parameters, engine)
    else:
        algorithm = BY_NAME.get(name, Sampled)(parameters, job, table)
    algorithm.name = name
    return algorithm
