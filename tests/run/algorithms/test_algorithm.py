"""Algorithms of jobs: their classes, parameters, rules and forms."""

import json

import pytest

from distsvc.errors import DataError
from distsvc.job.parameters import COMPOSED, PARAMETERS
from distsvc.models.baselines.estimator import Baseline
from distsvc.models.estimators import ESTIMATORS
from distsvc.run.algorithms import ALGORITHMS, begin, rule_named
from distsvc.run.algorithms.automatic import Automatic
from distsvc.run.algorithms.boundary import BoundaryModel
from distsvc.run.algorithms.level_tree import LevelTrees
from distsvc.run.algorithms.linear import PROBLEMS
from distsvc.storage.tables.opening import open_table
from tests.small_runs import FORMS, fit, small_job, table_of, three_clusters

RULES = {rule for algorithm in ALGORITHMS for rule in algorithm.rules}
LANDMARKS = "landmarks"
"""The form that needs more columns than these tables have; see tests/jobs/algorithms."""

X = three_clusters(400)

table = table_of(X)


def begun_by(path, model):
    """Return the algorithm of a job."""
    job = small_job(path, model)
    return begin(job, open_table(job.input, path.parent / "staging"))


@pytest.mark.parametrize("algorithm", PARAMETERS)
def test_an_algorithm_has_the_defaults_of_its_estimator(algorithm, table):
    begun = begun_by(table, {"algorithm": algorithm})
    assert begun.parameters.keys() == PARAMETERS[algorithm].keys()
    assert begun.engine.notes == []


def test_every_class_has_an_algorithm(table):
    having = {type(begun_by(table, {"algorithm": algorithm})) for algorithm in PARAMETERS}
    assert having | {BoundaryModel} == set(ALGORITHMS)
    assert len(set(ALGORITHMS)) == len(ALGORITHMS)
    baselines = {name for name, kind in ESTIMATORS.items() if issubclass(kind, Baseline)}
    assert set(PARAMETERS) == {
        "auto", "support-vector", "mixture", "imdh", *PROBLEMS, *baselines, *COMPOSED,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "algorithm"),
    [({"algorithm": "support-vector"}, LevelTrees), ({"gamma": 1.0}, BoundaryModel)],
)
def test_parameters_choose_the_class_of_support_vector_clustering(parameters, algorithm, table):
    assert type(begun_by(table, parameters)) is algorithm


@pytest.mark.parametrize("model", [{}, {"gamma": "auto", "n_clusters": 2}, {"nu": 0.1, "seed": 3}])
def test_a_job_without_an_algorithm_is_automatic(model, table):
    assert type(begun_by(table, model)) is Automatic


def test_forms_are_unique_and_name_their_rules():
    forms = [rule.form for rule in RULES]
    assert len(set(forms)) == len(forms)
    assert set(forms) == {*FORMS, LANDMARKS, f"floored-{LANDMARKS}", "mixture"}
    for algorithm in ALGORITHMS:
        for rule in algorithm.rules:
            assert rule_named(rule.form) is rule
    with pytest.raises(DataError, match="expected the form of a rule, found 'k-means'"):
        rule_named("k-means")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rules_of_an_algorithm_share_their_precision_and_columns(algorithm):
    """Both are needed before the rule is known."""
    assert len({rule.float64 for rule in algorithm.rules}) == 1
    assert len({tuple(rule.meanings) for rule in algorithm.rules}) == 1


@pytest.fixture(scope="module", params=FORMS)
def learned_form(request, table, tmp_path_factory):
    """The name of a form, and a run whose rule has it."""
    folder = tmp_path_factory.mktemp("form") / "run"
    return request.param, fit(small_job(table, FORMS[request.param]), folder)


def test_an_algorithm_describes_its_answer(learned_form):
    form, run = learned_form
    learned = run.algorithm.learned()
    facts = learned.facts
    assert json.loads(json.dumps(facts, default=float)).keys() == facts.keys()
    if not form.startswith("linear"):
        assert facts["n_clusters"] == run.rule.n_clusters == 3
    assert isinstance(learned.warnings, list)
    assert not learned.arrays.keys() & run.rule.arrays().keys()
