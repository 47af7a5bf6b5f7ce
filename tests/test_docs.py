"""README and pages say what the code does: commands, keys, exit codes, columns, paths."""

import ast
import pkgutil
import re
import shlex
import tomllib
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.csv
import pytest

from benchmarks.cli import commands
from benchmarks.datasets.catalogue import catalogue
from benchmarks.papers.published import papers
from distsvc import errors
from distsvc.cli.ending import INTERRUPTED, TERMINATED
from distsvc.cli.main import main
from distsvc.job.config import MODEL_SECTIONS, Job
from distsvc.job.dates import MOST_DAYS
from distsvc.job.file import parse_job
from distsvc.report.formats import TEMPLATES
from distsvc.report.page import PARTS
from distsvc.storage.rows.features import MAX_WIDTH
from docs.extensions import generated

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "deploy/*.md", "benchmarks/*.md")
    for page in ROOT.glob(pattern)
)
DECISIONS = sorted(page.name for page in (ROOT / "docs/design").glob("[0-9]*.md"))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST_LINE = 100
OF_DEVELOPERS = ("docs/design", "docs/evaluation", "docs/performance")
"""Pages that show options of the tests and the benchmarks, too."""


def text_of(page: str) -> str:
    """Return the text of a page, named by its path from the top."""
    return (ROOT / page).read_text(encoding="utf-8")


README = text_of("README.md")
ALGORITHMS = text_of("docs/choose/algorithms.md")
COMMAND_PAGE = text_of("docs/reference/commands.md")
EVALUATION = text_of("docs/evaluation/repeat.md")
JOB_FILE = text_of("docs/reference/job-file.md")
PUBLISHED = text_of("docs/reference/published.md")
SITE = {page: text_of(page) for page in PAGES if page == "README.md" or page.startswith("docs/")}


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a language."""
    return [code for name, code in FENCED.findall(text) if name == language]


def prose(text: str) -> str:
    """Return a text without its code blocks."""
    return FENCED.sub("", text)


def cells(text: str, first_heading: str) -> list[list[str]]:
    """Return the rows of the table whose first column has that heading, marks removed."""
    lines = iter(text.replace("`", "").splitlines())
    next(line for line in lines if line.startswith(f"| {first_heading} |"))
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def leaves(command: click.Command, name: str) -> dict[str, click.Command]:
    """Return all commands below a command by their full names."""
    if not isinstance(command, click.Group):
        return {name: command}
    found = {}
    for short, child in command.commands.items():
        found |= leaves(child, f"{name} {short}")
    return found


COMMANDS = leaves(main, "distsvc")
BENCHMARKS = leaves(commands, "python -m benchmarks")
PAGE_OF = dict.fromkeys(COMMANDS, COMMAND_PAGE) | dict.fromkeys(BENCHMARKS, EVALUATION)


def anchors(page: Path) -> set[str]:
    """Return what can follow # in a link to a page: its headings in lower case."""
    headings = re.findall(r"^#+ (.*)$", prose(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page within the repository that lead nowhere."""
    found = []
    text = prose(page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="(.*?)"', text):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


def missing_paths(text: str) -> list[str]:
    """Return the files, folders and modules that a text names in code marks and that don't exist.

    A bare name such as ``tree.py`` may be that of any module.
    """
    folders = ("distsvc", "benchmarks")
    modules = {path.name for folder in folders for path in ROOT.glob(f"{folder}/**/*.py")}
    found = []
    for name in re.findall(r"`([^`\s]+)`", prose(text)):
        if re.match(r"(distsvc|tests|benchmarks|deploy|jobs|docs)/", name):
            known = (ROOT / name).exists()
        elif re.fullmatch(r"\w+\.py", name):
            known = name in modules or (ROOT / name).exists()
        elif re.fullmatch(r"distsvc(\.\w+)+", name):
            known = resolves(name)
        else:
            continue
        if not known:
            found.append(name)
    return found


def resolves(name: str) -> bool:
    """Return True if a dotted name is a module, or an object in a module."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


# --- the command line


def test_every_command_has_a_row():
    for name, page in PAGE_OF.items():
        rows = [row[0] for row in cells(page, "command")]
        assert [row for row in rows if f"{row} ".startswith(f"{name} ")] != [], name


def test_every_option_is_explained():
    generated_commands = generated.commands()
    for name, command in (COMMANDS | BENCHMARKS).items():
        given = [one for one in command.params if isinstance(one, click.Option)]
        if name in COMMANDS and given:
            _, _, section = generated_commands.partition(f"### {name}\n")
            explained = [row[0] for row in cells(section, "option")]
        else:
            rows = [row for row in cells(EVALUATION, "command") if row[0].startswith(name)]
            rows += cells(EVALUATION, "option of papers run")
            explained = [" ".join(row) for row in rows]
        for option in (option for one in given for option in one.opts):
            assert any(re.search(rf"{option}(?![-\w])", row) for row in explained), (name, option)


def test_limits_are_those_of_the_code():
    assert f"may have {MAX_WIDTH:,} columns of numbers" in text_of("docs/guide/inputs.md")
    assert f"A backfill spans {MOST_DAYS:,} days at" in text_of("docs/nights/backfill.md")


def test_pages_name_no_option_that_there_is_not():
    known = {o for command in COMMANDS.values() for p in command.params for o in p.opts}
    known |= {"--help", "--version"}
    for page, text in SITE.items():
        named = set(re.findall(r"(?<![-\w])--[a-z][-a-z]*", prose(text)))
        assert page.startswith(OF_DEVELOPERS) or named <= known, page


def commands_of(text: str) -> set[str]:
    """Return the commands of distsvc that a page shows in code."""
    code = "\n".join(blocks(text, "sh") + blocks(text, "console"))
    shown = re.findall(r"^    (distsvc .*)$", text, re.MULTILINE)
    shown += re.findall(r"^(?:\$ )?(distsvc [a-z]+ .*)$", code, re.MULTILINE)
    return {line.partition("  #")[0] for line in shown}


@pytest.mark.parametrize("line", sorted(set.union(*map(commands_of, SITE.values()))))
def test_commands_of_the_pages_can_be_given(line):
    _, name, *words = shlex.split(line)
    assert main.commands[name].make_context(name, words).params


def test_every_extra_has_a_row():
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    page = text_of("docs/start/install.md")
    named = [name for row in cells(page, "extra") for name in row[0].split(", ")]
    assert sorted(named) == sorted(project["optional-dependencies"])


def test_every_exit_code_has_a_row():
    codes = {one.exit_code for one in vars(errors).values() if hasattr(one, "exit_code")}
    page = text_of("docs/operate/exit-codes.md")
    rows = [code for row in cells(page, "exit code") for code in row[0].split(", ")]
    assert sorted(map(int, rows)) == sorted({0, 1, 2, INTERRUPTED, TERMINATED} | codes)


# --- the job file


@pytest.mark.parametrize("job", [job for page in SITE for job in blocks(SITE[page], "toml")])
def test_the_job_files_of_the_pages_are_valid(job):
    small = {"input": {"path": "a.parquet"}, "output": {"path": "out"}}
    parse_job(small | tomllib.loads(job))


def test_every_key_stands_in_its_section_of_the_full_job_file():
    full = tomllib.loads(max(blocks(JOB_FILE, "toml"), key=len))
    job_keys = generated.job_keys()
    for section, field in Job.model_fields.items():
        if section not in ("model", "columns", "names"):
            keys = set(field.annotation.model_fields)
            assert keys <= set(full[section])
            _, _, table = job_keys.partition(f"### `[{section}]`")
            assert keys <= {row[0] for row in cells(table, "key") if row[-1]}


def test_every_key_of_a_model_is_explained():
    common, *own = re.split("^#### ", generated.model_keys(), flags=re.MULTILINE)
    for algorithm, model in MODEL_SECTIONS.items():
        assert [row for row in cells(ALGORITHMS, "algorithm") if f'"{algorithm}"' in row[0]]
        (section,) = [text for text in own if text.startswith(f'`algorithm = "{algorithm}"`')]
        explained = {r[0] for table in (common, section) for r in cells(table, "key") if r[-1]}
        assert set(model.model_fields) <= explained, algorithm


# --- Python


def test_the_columns_of_the_page_are_the_published_ones():
    from distsvc.storage.publishing.formats import PUBLISHED_COLUMNS

    def said(kind):
        if pa.types.is_list(kind):
            return f"list of {said(kind.value_type)}"
        return {"float": "float32"}.get(str(kind), str(kind))

    published = [[one.name, said(one.type)] for one in PUBLISHED_COLUMNS]
    assert [row[:2] for row in cells(PUBLISHED, "column")] == published


@pytest.mark.parametrize("code", [code for page in SITE for code in blocks(SITE[page], "python")])
def test_the_examples_of_the_pages_import_what_there_is(code):
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                pkgutil.resolve_name(f"{node.module}:{alias.name}")


def test_the_messages_that_a_page_explains_are_given():
    code = "".join(path.read_text() for path in (ROOT / "distsvc").rglob("*.py"))
    for row in re.findall(r"^\| (`.*?) \| ", text_of("docs/operate/messages.md"), re.MULTILINE):
        for words in re.findall(r"`(.*?)`", row):
            assert words in code


def test_the_page_on_the_report_names_its_parts():
    named = [row[0] for row in cells(text_of("docs/start/page.md"), "part")]
    for part in PARTS:
        template = (TEMPLATES / f"parts/{part}.html").read_text(encoding="utf-8")
        assert "{% set heading = " in template
        for heading in re.findall(r'{% set heading = "([^"]*)" %}', template):
            assert heading in named


# --- all documents


@pytest.mark.parametrize("page", PAGES)
def test_links_and_paths_exist_and_prose_is_wrapped(page):
    text = text_of(page)
    lines = prose(text).splitlines()
    assert broken_links(ROOT / page) == []
    assert missing_paths(text) == []
    assert [line for line in lines if len(line) > LONGEST_LINE and line[:1] not in "|!$"] == []


def test_decisions_are_numbered_and_listed_in_order():
    listed = re.findall(r"\]\((\d{3}-[-\w]+\.md)\)", text_of("docs/design/index.md"))
    assert [name[:3] for name in DECISIONS] == [f"{n:03}" for n in range(1, len(DECISIONS) + 1)]
    assert listed == DECISIONS


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_has_the_shape_of_all(name):
    text = text_of(f"docs/design/{name}")
    headings = re.findall(r"^#+ .*$", text, re.MULTILINE)
    assert headings[0].startswith(f"# {name[:3]}. ")
    assert text.splitlines()[2].startswith("**Decision.** ")
    assert headings[1] == "## Why"
    assert headings[2].startswith("## What was tried")
    assert headings[3:] == ["## What was given up"]


def test_papers_are_named_by_keys_of_the_references():
    used = {key for one in catalogue().values() for key in one.used_by} | set(papers())
    assert used - anchors(ROOT / "docs/references.md") == set()


# --- the checks themselves


def test_a_wrong_link_and_a_wrong_path_are_found(tmp_path):
    (tmp_path / "a.md").write_text("# One two\n\n[a](b.md) [b](#one-two) [c](a.md#three)\n")
    assert broken_links(tmp_path / "a.md") == ["b.md", "a.md#three"]
    text = "`distsvc/run/job.py` `distsvc/no.py` `job.py` `no.py` `distsvc.metrics` `distsvc.no`"
    assert missing_paths(text) == ["distsvc/no.py", "no.py", "distsvc.no"]
