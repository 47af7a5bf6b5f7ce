"""A user's program passes mypy --strict and pyright, and both refuse each wrong use."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from distsvc.job.parameters import PARAMETERS
from distsvc.models.estimators import ESTIMATORS

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "tests/typing"
WRONG = {
    number
    for number, line in enumerate((PROGRAMS / "wrong_uses.py").read_text().splitlines(), 1)
    if "# wrong" in line
}
UNSEEN_BY_MYPY = {
    number
    for number, line in enumerate((PROGRAMS / "wrong_uses.py").read_text().splitlines(), 1)
    if line.endswith("# wrong, but not to mypy")
}


PROGRAM, WRONG_USES = str(PROGRAMS / "user_program.py"), str(PROGRAMS / "wrong_uses.py")


def mypy(folder):
    """Return the file and line of everything that mypy --strict refuses, and its output."""
    command = [
        sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent",
        f"--cache-dir={folder}", "--config-file=", "--show-absolute-path", PROGRAM, WRONG_USES,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, env={"MYPYPATH": str(ROOT), "PATH": ""}, cwd=folder
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(.+?):(\d+): error", done.stdout, re.MULTILINE)
    return {(file, int(line)) for file, line in found}, done.stdout


def pyright(folder):
    """Return the file and line of everything that pyright refuses, and its output."""
    config = folder / "pyrightconfig.json"
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    config.write_text(json.dumps(settings | {"include": [PROGRAM, WRONG_USES]}))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(config)]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 2
    errors = [one for one in found["generalDiagnostics"] if one["severity"] == "error"]
    return {(one["file"], one["range"]["start"]["line"] + 1) for one in errors}, done.stdout


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_users_program_passes_and_wrong_uses_are_refused(check, tmp_path):
    assert len(WRONG) >= 20
    lines, told = check(tmp_path)
    wrong = WRONG - (UNSEEN_BY_MYPY if check is mypy else set())
    assert lines == {(WRONG_USES, line) for line in wrong}, told


@pytest.mark.parametrize(("algorithm", "estimator"), ESTIMATORS.items())
def test_signatures_have_the_words_that_parameters_take(algorithm, estimator):
    hints = get_type_hints(estimator.__init__)
    assert set(inspect.signature(estimator).parameters) == set(PARAMETERS[algorithm])
    for name, constraint in PARAMETERS[algorithm].items():
        assert words(hints[name]) == words(constraint.type), name


def words(annotation):
    """Return the words of all literals in a type."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    return set().union(*map(words, get_args(annotation)))
