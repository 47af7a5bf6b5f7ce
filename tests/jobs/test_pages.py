"""README and pages of docs/: their commands and code run in their order, and print what they say.

A job file is the block behind a line that ends in its name, such as ```shop.toml`:``. Code of one
page shares its variables, as in a notebook; a block of `text` behind it is what it prints.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from distsvc.cli.main import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
AFTER_THE_FIRST_JOB = [DOCS / "guide/python.md", DOCS / "reference/published.md"]
"""Pages that go on in the folder of the first job."""

CODE = re.compile(r"^```(?:console|python)$", re.MULTILINE)
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]
    if CODE.search(page.read_text(encoding="utf-8"))
]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w-]+\.toml)`[^`]*$")
VARYING = [
    (r"[0-9a-f]{12}-[0-9a-f]{8}", "RUN"),
    (r"\d{4}-\d\d-\d\dT\S+?(?=,)", "TIME"),
    (r"\d+\.\d s\b", "SECONDS"),
    (r"(?m)  \d+\.\d +(?=\S+$)", "  SECONDS  "),  # of a history, the last column but one
]
DECIMAL = re.compile(r"-?\d+\.\d+")
TOLERANCE, RELATIVE_TOLERANCE = 0.11, 0.06
"""Allowed difference of decimals: last digits depend on the processor."""

CODES = {
    r"backfill shop.toml --from 2026-11-02 .*": 75,
    r"backfill shop.toml --from 2026-11-05 .*": 76,
}
"""Exit codes that the pages name, of these commands; others end well."""


def settled(text: str) -> list[str]:
    """Return lines without what differs from run to run; the log's lines of JSON left out."""
    text = text.replace(f"{Path.cwd()}/", "")
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return [line.rstrip() for line in text.splitlines() if not line.startswith("{")]


def alike(found: list[str], expected: list[str]) -> bool:
    """Return True if lines are equal, but for small differences of their decimals."""
    if [DECIMAL.sub("N", line) for line in found] != [DECIMAL.sub("N", line) for line in expected]:
        return False
    numbers = [
        [float(n) for line in lines for n in DECIMAL.findall(line)] for lines in (found, expected)
    ]
    return numbers[0] == pytest.approx(numbers[1], abs=TOLERANCE, rel=RELATIVE_TOLERANCE)


def steps(page: Path) -> list[tuple[str, str, str]]:
    """Return kind, content and expected output of every step of a page, in their order.

    Of a job the kind is its file's name.
    """
    text = page.read_text(encoding="utf-8")
    found, blocks = [], list(FENCED.finditer(text))
    for number, block in enumerate(blocks):
        kind, code = block.groups()
        if kind == "console":
            for one in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
                command, _, output = one.partition("\n")
                found.append(("command", command, output))
        elif kind == "python":
            following = blocks[number + 1].groups() if number + 1 < len(blocks) else ("", "")
            found.append(("python", code, following[1] if following[0] == "text" else ""))
        elif kind == "toml":
            name = NAMED.search(text[: block.start()])
            assert name, f"{page.name}: no line names the file of the job {code[:60]!r}"
            found.append((name[1], code, ""))
    return found


def done(kind: str, content: str, variables: dict) -> tuple[int, str]:
    """Do a step; return its exit code and what it prints."""
    if kind.endswith(".toml"):
        Path(kind).write_text(content)
        return 0, ""
    if kind == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(content, "page", "exec"), variables)
        return 0, printed.getvalue()
    program, *words = shlex.split(content)
    if program == "touch":
        Path(words[0]).touch()
        return 0, ""
    assert program == "distsvc"
    ran = CliRunner().invoke(main, words)
    return ran.exit_code, ran.output


@pytest.mark.usefixtures("quick_page")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_step_prints_what_the_page_says(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if "import mlflow" in page.read_text(encoding="utf-8"):
        request.getfixturevalue("mlflow_store")
    variables = {"__name__": "__main__"}
    if page in AFTER_THE_FIRST_JOB:
        for kind, content, _ in steps(DOCS / "start/first-job.md"):
            done(kind, content, {})
    for kind, content, expected in steps(page):
        code, output = done(kind, content, variables)
        known = [code for said, code in CODES.items() if re.fullmatch(f"distsvc {said}", content)]
        assert code == (known[0] if known else 0), output
        found, said = settled(output), settled(expected)
        assert found == said or alike(found, said), content


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_pictures_that_are_there(page):
    for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / name).is_file()
