"""Parts of pages that are made of the code: commands from click, keys from the typed job.

Each function returns Markdown; a page says where (`docs.extensions.pages`). Nothing here needs
Sphinx, so the tests read the same text.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import click

from distsvc.cli.main import main
from distsvc.job import config
from distsvc.job.parameters import CLUSTER_KEYS, NU_OF_JOBS, PARAMETERS, PUBLISHED
from distsvc.models.estimators import ESTIMATORS
from distsvc.models.support_vector.estimator import SupportVectorClustering

NAMES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true, false",
}
PARAMETERS_SECTION = re.compile(r"^(?:Other )?Parameters\n-+\n(.*?)(?:\n\n|\Z)", re.M | re.S)
REQUIRED = "required"
SENTENCE = re.compile(r"^.*?\.(?=\s+[A-Z\"`]|$)", re.DOTALL)
SETTINGS = 'Those of the paper with "published", for all keys that are not given.'
TEXT_OR_LIST = "text or list of text"
COLUMNS = (
    'Each key is the name of a column. Its value is a kind, as in `visits = "count"`, or a table: '
    '`visits = { kind = "count", scale = "root" }`.'
)
AS_WRITTEN = {
    "path": TEXT_OR_LIST,
    "on_published": TEXT_OR_LIST,
    "on_held": TEXT_OR_LIST,
    "on_failed": TEXT_OR_LIST,
    "previous": "text",
    "same_columns": "true, false, or `{ limit = true, ... }`",
    "unique_id": "true, false, or `{ limit = true, ... }`",
}
"""Keys that a job file may write in another way than the section holds them."""


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    lines = [list(headings)]
    lines += [["---"] * len(lines[0])]
    lines += [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def commands() -> str:
    """Return every command: how it is called, what it does, its options."""
    return "\n\n".join(command_section(name, main.commands[name]) for name in main.commands)


def command_section(name: str, command: click.Command) -> str:
    """Return the section of one command."""
    context = click.Context(command, info_name=f"distsvc {name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    options = [one for one in command.params if isinstance(one, click.Option)]
    parts = [f"### distsvc {name}", f"```text\n{usage}\n```", inspect.cleandoc(command.help or "")]
    if options:
        rows = [[option_words(one, context), one.help or "", default(one)] for one in options]
        parts.append(table(["option", "meaning", "default"], rows))
    return "\n\n".join(parts)


def option_words(option: click.Option, context: click.Context) -> str:
    """Return the names of an option, and what follows them."""
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    return ", ".join(f"`{name}{value}`" for name in option.opts)


def default(option: click.Option) -> str:
    """Return what an option has where it is not given, if its command shows that."""
    return f"`{option.default}`" if option.show_default else ""


CLUSTER_NAMES = (
    "Each key is the id of a cluster, and its value a name of at most 60 characters. The page and "
    "`distsvc export` show it in place of the name by columns. Names do "
    "not decide the answer: run the same command again after a change, and only the page and the "
    "report are written anew."
)


def job_keys() -> str:
    """Return every section of a job file but `[model]`: keys, values, defaults, meanings."""
    sections = {name: of.annotation for name, of in config.Job.model_fields.items()}
    shown = [name for name in sections if name not in ("model", "columns", "names")]
    parts = [f"### `[{name}]`\n\n{keys_table(sections[name], given_of(name))}" for name in shown]
    columns = f"### `[columns]`\n\n{COLUMNS}\n\n{keys_table(config.ColumnKind)}"
    return "\n\n".join([*parts, columns, f"### `[names]`\n\n{CLUSTER_NAMES}"])


def given_of(section: str) -> dict[str, str]:
    """Return the values of keys that a job file may write in another way."""
    return AS_WRITTEN if section != "output" else {}


def model_keys() -> str:
    """Return the keys of `[model]`: those of all algorithms, and those of each."""
    own = {"algorithm": choices(PARAMETERS)}
    parts = [f"### `[model]`\n\n{keys_table(config.ModelConfig, own, {'algorithm': '`auto`'})}"]
    for algorithm, section in config.MODEL_SECTIONS.items():
        of_job = section.model_fields.keys() - config.ModelConfig.model_fields.keys()
        keys = [key for key in PARAMETERS[algorithm] if key in of_job]
        schema = section.model_json_schema()
        said = parameter_docs(ESTIMATORS.get(algorithm, SupportVectorClustering))
        if algorithm == "linear-svdd":  # its docstring refers to the other one for these
            ball = {name: text for name, text in said.items() if text}
            said = parameter_docs(ESTIMATORS["linear-one-class"]) | ball
        if algorithm in CLUSTER_KEYS:
            keys.insert(0, "n_clusters")
            said |= {"n_clusters": said[CLUSTER_KEYS[algorithm]]}
        rows = [["`settings`", choices(("default", "published")), '`"default"`', SETTINGS]]
        rows = rows if algorithm in PUBLISHED else []
        rows += [
            [
                f"`{key}`",
                values(schema["properties"][key], schema),
                literal(default_of(algorithm, key)),
                first_sentence(said[key]),
            ]
            for key in keys
        ]
        heading = f"#### `algorithm = {json.dumps(algorithm)}`"
        parts.append(f"{heading}\n\n{table(['key', 'values', 'default', 'meaning'], rows)}")
    return "\n\n".join(parts)


def default_of(algorithm: str, key: str) -> Any:
    """Return what a job has where it does not give a parameter of an algorithm."""
    if key == "nu" and algorithm in NU_OF_JOBS:
        return NU_OF_JOBS[algorithm]
    name = CLUSTER_KEYS.get(algorithm, key) if key == "n_clusters" else key
    return PARAMETERS[algorithm][name].default


def keys_table(
    section: Any, given: Mapping[str, str] = {}, defaults: Mapping[str, str] = {}
) -> str:
    """Return the table of a section's keys; `given` and `defaults` stand in for what it says."""
    schema = section.model_json_schema()
    said = attribute_docs(section)
    required = schema.get("required", [])
    rows = [
        [
            f"`{key}`",
            given.get(key) or values(schema["properties"][key], schema),
            defaults.get(key)
            or (REQUIRED if key in required else literal(schema["properties"][key].get("default"))),
            said[key],
        ]
        for key in section.model_fields
    ]
    return table(["key", "values", "default", "meaning"], rows)


def attribute_docs(section: Any) -> dict[str, str]:
    """Return the text below each field of a class in its source."""
    (tree,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(text.value, ast.Constant)
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


def parameter_docs(estimator: type) -> dict[str, str]:
    """Return what a docstring in NumPy's style says of each parameter."""
    text = inspect.getdoc(estimator) or ""
    section = "\n".join(PARAMETERS_SECTION.findall(text))
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line.startswith(" "):
            for name in names:
                found[name] = f"{found[name]} {line.strip()}".strip()
        else:
            names = line.partition(" : ")[0].split(", ")
            found |= dict.fromkeys(names, "")
    return found


def first_sentence(text: str) -> str:
    """Return a text up to the end of its first sentence, in one line."""
    found = SENTENCE.match(text)
    return found[0] if found else text


def literal(value: Any) -> str:
    """Return a default as a job file has it; nothing where the key has none."""
    return "" if value in (None, [], {}) else f"`{json.dumps(value)}`"


def choices(names: Iterable[str]) -> str:
    """Return texts from which one is chosen."""
    return ", ".join(f"`{json.dumps(name)}`" for name in names)


def values(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    """Return in words which values a key may have, by its JSON schema."""
    if "$ref" in schema:
        limit = whole["$defs"][schema["$ref"].rpartition("/")[2]]["properties"]["limit"]
        return f"{values(limit, whole)}, or `{{ limit = ..., ... }}`"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            kinds = [one for one in schema[several] if one.get("type") != "null"]
            return " or ".join(values(one, whole) for one in kinds)
    if "enum" in schema:
        return choices(schema["enum"])
    if "const" in schema:
        return choices([schema["const"]])
    if schema["type"] == "array":
        n = schema.get("minItems") if schema.get("minItems") == schema.get("maxItems") else None
        one = values(schema["items"], whole)
        return f"{n} values: {one}" if n else f"list of {one}"
    if schema["type"] == "object":
        return f"table of {values(schema['additionalProperties'], whole)}"
    return NAMES[schema["type"]] + bounds(schema)


def bounds(schema: Mapping[str, Any]) -> str:
    """Return the ends of a range of numbers, in words."""
    ends = [
        f"{word} {amount(schema[end])}"
        for end, word in (
            ("exclusiveMinimum", "above"),
            ("minimum", "from"),
            ("maximum", "up to"),
        )
        if end in schema
    ]
    return " " + " ".join(ends) if ends else ""


def amount(number: float) -> str:
    """Return a number as people write it."""
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"
