"""Short forms of keys, hints at --set, and what a shell completes."""

import click
import pytest
from click.shell_completion import BashComplete, ShellComplete
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.cli.options import SHORT, short_overrides
from distsvc.job.file import known_keys

pytestmark = pytest.mark.usefixtures("quick_page", "no_signals")

VALUES = {
    "clusters": (5, 5),
    "max_clusters": (5, 5),
    "min_cluster_rows": (50, 50),
    "classes": ("y", "y"),
    "id": ("name", "name"),
    "out": ("there", "there"),
    "columns": ("a, b", ("a", "b")),
    "exclude": ("c, d", ("c", "d")),
    "where": ("a > 0", "a > 0"),
    "scale": ("robust", "robust"),
    "missing": ("drop", "drop"),
    "algorithm": ("imdh", "imdh"),
    "seed": (3, 3),
}


@pytest.fixture
def asked(monkeypatch):
    """The jobs that `distsvc run` would run."""
    from distsvc.run.drafts.asked_job import asked_job

    jobs = []

    def stop(*arguments, **_):
        given, run_date, settings, overrides = arguments
        jobs.append(asked_job(given, run_date, settings, overrides))
        raise SystemExit

    monkeypatch.setattr("distsvc.cli.main.run_and_announce", stop)
    return jobs


def value_of(job, key):
    section, name = key.split(".")
    return getattr(getattr(job, section), name)


@pytest.mark.parametrize(("option", "key"), SHORT.items())
def test_a_short_form_is_its_key(asked, option, key):
    given, expected = VALUES[option]
    words = ["run", "t.csv", f"--{option.replace('_', '-')}", str(given)]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert value_of(asked[0], key) == expected


def test_short_forms_together_override_a_job_file(asked, tmp_path):
    (tmp_path / "job.toml").write_text(
        '[input]\npath = "t.csv"\nlabel = "z"\n[output]\npath = "o"\n[model]\nn_clusters = 2\n'
    )
    apart = ("where", "max_clusters")  # the latter contradicts the number of clusters
    together = {option: value for option, value in VALUES.items() if option not in apart}
    words = [f"--{option.replace('_', '-')}={given}" for option, (given, _) in together.items()]
    assert CliRunner().invoke(main, ["run", f"{tmp_path}/job.toml", *words]).exit_code == 0
    for option, (_, expected) in together.items():
        assert value_of(asked[0], SHORT[option]) == expected
    assert asked[0].input.where is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--clusters", "0"], "'--clusters': 0 is not in the range x>=1"),
        (["--clusters", "five"], "'five' is not a valid whole number"),
        (["--scale", "big"], "'big' is not one of 'standard', 'minmax', 'robust', 'unit', 'none'"),
        (["--missing", "no"], "'no' is not one of 'auto', 'error', 'drop', 'median'"),
        (
            ["--algorithm", "means"],
            "'means' is not one of 'auto', 'support-vector', 'mixture', 'imdh'",
        ),
        (["--seed", "-1"], "-1 is not in the range x>=0"),
        (
            ["--out", "a", "--set", "output.path=b"],
            "--out and --set output.path are both given: expected one of them",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_wrong_short_forms(command, words, message):
    found = CliRunner().invoke(main, [command, "t.csv", *words])
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr


def test_another_key_of_the_same_section_may_be_set(asked):
    found = CliRunner().invoke(main, ["run", "t.csv", "--seed=3", "--set", "model.nu=0.2"])
    assert found.exit_code == 0
    assert (asked[0].model.seed, asked[0].model.nu) == (3, 0.2)
    assert short_overrides(["model.nu=1"], {"seed": 4, "id": None}) == {"model.seed": 4}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["run", "a", "--n-clusters", "5"], "; did you mean --clusters?"),
        (["run", "a", "--gamma=1"], "; did you mean --set model.gamma=VALUE?"),
        (["run", "a", "--gama=1"], "; did you mean --set model.gamma=VALUE?"),
        (["run", "a", "--run-dat=1"], "; did you mean --run-date?"),
        (["run", "a", "--zzz"], "; a key of the job file is given by --set SECTION.KEY=VALUE"),
        (["backfill", "a", "--n-clusters=5"], "; did you mean --set model.n_clusters=VALUE?"),
        (["gc", "a", "--dryrun"], "; did you mean --dry-run?"),
        (["predict", "a", "b", "c", "--seed=1"], "of distsvc run, or model.seed in a job file"),
        (["history", "a", "--html", "b"], "; the options are --page, --json"),
        (["init", "a", "--max-clusters=5"], "of distsvc run, or model.max_clusters in a job file"),
    ],
    ids=str,
)
def test_unknown_options_have_hints(words, hint):
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 2
    assert found.stderr.rstrip().endswith(hint)


def completed(*words, of=ShellComplete):
    complete = of(main, {}, "distsvc", "_DISTSVC_COMPLETE")
    *before, incomplete = words
    return [(item.type, item.value) for item in complete.get_completions(before, incomplete)]


def test_files_are_completed():
    named = [(name, one) for name, command in main.commands.items() for one in command.params]
    takes = [(name, one) for name, one in named if isinstance(one, click.Argument)]
    assert len(takes) > 10
    for name, parameter in takes:
        [item] = parameter.shell_complete(click.Context(main.commands[name]), "jo")
        assert (item.type, item.value) == ("file", "jo")
    assert completed("run", "job.toml", "--out", "o") == [("file", "o")]


def test_keys_and_their_words_are_completed():
    offered = [value for _, value in completed("run", "t", "--set", "")]
    assert offered == [f"{key}=" for key in known_keys()]
    assert completed("run", "t", "--set", "model.gra") == [("plain", "model.granularity=")]
    words = [value for _, value in completed("backfill", "t", "--set", "model.granularity=")]
    assert words == [f"model.granularity={word}" for word in ("coarse", "default", "fine")]
    assert completed("run", "t", "--set", "model.seed=") == []
    assert [v for _, v in completed("plan", "t", "--scale", "r")] == ["robust"]
    assert ("plain", "imdh") in completed("run", "t", "--algorithm", "")


def test_completion_in_bash(monkeypatch):
    monkeypatch.setenv("COMP_WORDS", "distsvc run t --missing m")
    monkeypatch.setenv("COMP_CWORD", "4")
    complete = BashComplete(main, {}, "distsvc", "_DISTSVC_COMPLETE")
    assert complete.complete() == "plain,median"
