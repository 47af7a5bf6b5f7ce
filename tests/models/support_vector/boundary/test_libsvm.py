import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from distsvc.models.support_vector.boundary import libsvm


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(300, 3))


@pytest.fixture
def commands(monkeypatch):
    """The commands of child processes; `libsvm` finds no scikit-learn loaded."""
    started, run = [], subprocess.run

    def watched(command, **options):
        started.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    monkeypatch.setattr(libsvm, "sys", SimpleNamespace(modules={}, executable=sys.executable))
    return started


@pytest.mark.parametrize(
    ("executable", "file", "tries"),
    [
        (sys.executable, libsvm.__file__, 1),
        (sys.executable, "/no/such/file.py", 1),
        ("/no/python", libsvm.__file__, 1),
        (None, libsvm.__file__, 0),
    ],
)
def test_the_offset_is_the_same_to_the_bit(rows, commands, monkeypatch, executable, file, tries):
    """If the child process fails or cannot start, this process computes the offset."""
    libsvm.sys.executable = executable
    monkeypatch.setattr(libsvm, "__file__", file)
    found = libsvm.one_class_offset(rows, 0.5, 0.1)
    assert len(commands) == tries
    assert found == libsvm.one_class_machine(rows, 0.5, 0.1)[1]


def test_no_child_process_starts_if_scikit_learn_is_loaded(rows, commands):
    libsvm.sys.modules["sklearn"] = None
    libsvm.one_class_offset(rows, 0.5, 0.1)
    assert commands == []


def test_a_child_process_loads_no_pandas(rows, commands, monkeypatch):
    run, errors = subprocess.run, []

    def verbose(command, **options):
        done = run([command[0], "-v", *command[1:]], **options)
        errors.append(done.stderr)
        return done

    monkeypatch.setattr(subprocess, "run", verbose)
    libsvm.one_class_offset(rows, 0.5, 0.1)
    assert b"import 'sklearn.svm'" in errors[0]
    assert b"import 'pandas.core" not in errors[0]
