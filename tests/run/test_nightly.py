"""The tutorial of docs/nightly.md: its commands print what it says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from distsvc.cli import main

PAGE = Path(__file__).parents[2] / "docs/nightly.md"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = [
    (r"[0-9a-f]{12}-[0-9a-f]{8}", "RUN"),
    (r"\d{4}-\d\d-\d\dT\S+?(?=,)", "TIME"),
    (r"\d+\.\d s\b", "SECONDS"),
]
CODES = {"backfill shop.toml --from 2026-11-02": 75, "backfill shop.toml --from 2026-11-05": 76}
"""Exit codes that the page names, of commands that begin so."""


def settled(text: str) -> list[str]:
    """Return lines without what differs from run to run; the log's lines of JSON left out."""
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return [line.rstrip() for line in text.splitlines() if not line.startswith("{")]


def steps() -> list[tuple[str, str, str]]:
    """Return kind, command and expected output of every step of the page, in their order."""
    found, blocks = [], FENCED.findall(PAGE.read_text(encoding="utf-8"))
    for number, (kind, code) in enumerate(blocks):
        if kind == "console":
            for one in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
                command, _, output = one.partition("\n")
                found.append(("command", command, output))
        elif kind == "python":
            following = blocks[number + 1]
            found.append(("python", code, following[1] if following[0] == "text" else ""))
        elif kind == "toml":
            found.append(("job", code, ""))
    return found


def done(kind: str, command: str) -> tuple[int, str]:
    """Do a step; return its exit code and what it prints."""
    if kind == "job":
        Path("shop.toml").write_text(command)
        return 0, ""
    if kind == "python":
        ran = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr
    program, *words = shlex.split(command)
    if program == "touch":
        Path(words[0]).touch()
        return 0, ""
    assert program == "distsvc"
    ran = CliRunner().invoke(main, words)
    return ran.exit_code, ran.output


@pytest.mark.usefixtures("quick_page")
def test_every_command_prints_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind, command, expected in steps():
        code, output = done(kind, command)
        known = [code for start, code in CODES.items() if command.startswith(f"distsvc {start}")]
        assert code == (known[0] if known else 0), output
        assert settled(output) == settled(expected), command


def test_the_page_names_the_pictures_that_are_there():
    for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / name).is_file()
