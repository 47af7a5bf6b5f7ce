"""Options of several commands, and short forms of the most common keys.

The job's configuration is imported when it is needed: ``--help`` answers at once.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import click

from distsvc.run.work.start import DEFAULT_DISPLAY, ClusterAddress, Display, Start

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


PATH = click.Path(readable=False)
"""The type of options whose value is a path or URL; shells complete it as a file name."""


class WordOf(click.Choice[str]):
    """The type of an option whose value is one of the words that a key allows."""

    case_sensitive = True

    def __init__(self, key: str):
        self.key = key

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The allowed words, from the job's configuration, which is imported when needed."""
        from distsvc.job.file import known_keys

        return known_keys()[self.key]


def names(value: str | list[str]) -> list[str]:
    """Return the names of columns; text is split at commas."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


def complete_setting(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return completions: the keys of the job, or after ``KEY=`` the allowed words of KEY."""
    from distsvc.job.file import known_keys

    key, equals, _word = incomplete.partition("=")
    words = [f"{key}={word}" for word in known_keys().get(key, ())]
    offered = words if equals else [f"{name}=" for name in known_keys()]
    return [word for word in offered if word.startswith(incomplete)]


class WholeNumber(click.IntRange):
    """An integer in a range, called "whole number" in messages."""

    name = "whole number"


SHORT_OPTIONS: dict[str, tuple[str, Callable[..., Any] | click.ParamType, str, str]] = {
    "clusters": (
        "model.n_clusters", WholeNumber(1), "K", "The number of clusters; found by default."
    ),
    "max_clusters": (
        "model.max_clusters", WholeNumber(1), "K",
        "The maximum number of clusters; the smallest are merged into the nearest clusters.",
    ),
    "min_cluster_rows": (
        "model.min_cluster_rows", WholeNumber(1), "N",
        "The minimum rows of a cluster; a smaller cluster is merged into the nearest.",
    ),
    "classes": (
        "input.classes", str, "NAME", "The column of known classes; it only scores the result."
    ),
    "id": ("input.id", str, "NAME", "The column of ids, copied to the labels."),
    "out": ("output.path", PATH, "OUT", "The output path; out/NAME by default."),
    "columns": (
        "input.columns", names, "A,B,C",
        "The columns used; by default all columns that can be features.",
    ),
    "exclude": ("input.exclude", names, "A,B", "Columns that are not used; none by default."),
    "where": ("input.where", str, "FILTER", "The rows used, e.g. 'amount > 0'."),
    "scale": (
        "preprocess.scale", WordOf("preprocess.scale"), "HOW",
        "The scale: standard, minmax, robust, unit, none or auto.",
    ),
    "missing": (
        "preprocess.missing", WordOf("preprocess.missing"), "HOW",
        "Missing values: auto (the default), error, drop or median.",
    ),
    "algorithm": (
        "model.algorithm", WordOf("model.algorithm"), "NAME",
        "The algorithm, such as support-vector, imdh or linear-svdd; auto by default.",
    ),
    "seed": (
        "model.seed", WholeNumber(0), "N", "The seed of random choices; 0 by default."
    ),
}  # fmt: skip
"""Options that set a key of the job: "clusters" is --clusters, and sets model.n_clusters.

The values are the key, the type, the placeholder of the value in the help, and the help text.
"""

SHORT = {name: key for name, (key, *_) in SHORT_OPTIONS.items()}

OLD_FLAGS = {"classes": ("--label",)}
"""Deprecated flags that still work: --label is the same as --classes."""


def _short_option(name: str) -> Decorator:
    _, kind, metavar, words = SHORT_OPTIONS[name]
    flags = (f"--{name.replace('_', '-')}", *OLD_FLAGS.get(name, ()))
    return click.option(*flags, type=kind, metavar=metavar, help=words)


EXCLUDE = _short_option("exclude")
SET = click.option(
    "--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE",
    shell_complete=complete_setting, help="Override a key of the job; may be given several times.",
)  # fmt: skip
RUN_DATE = click.option(
    "--run-date", metavar="DATE", help="The day that {run_date} stands for; today by default."
)
FRESH = click.option(
    "--fresh",
    is_flag=True,
    help="Start over instead of resuming an interrupted run; with --overwrite, also repeat a "
    "published run.",
)
METRICS_FILE = click.option(
    "--metrics-file", type=PATH, metavar="FILE",
    help="The file for Prometheus' metrics, written whatever the exit code is.",
)  # fmt: skip


def added(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command."""
    return lambda command: reduce(lambda one, option: option(one), reversed(options), command)


cluster_options = added(
    click.option(
        "--scheduler", metavar="ADDRESS",
        help="The address of a Dask scheduler, e.g. tcp://10.0.0.5:8786.",
    ),
    click.option(
        "--scheduler-file", type=PATH, metavar="FILE",
        help="The file in which a Dask scheduler wrote its address.",
    ),
    click.option(
        "--require-tls", is_flag=True, help="Refuse a scheduler whose address is not tls://."
    ),
)  # fmt: skip
"""A decorator that adds the options to find a Dask scheduler."""

display_options = added(
    click.option("-q", "--quiet", is_flag=True, help="Show no progress and no log, only errors."),
    click.option("--verbose", is_flag=True, help="Show every event, with all its fields."),
    click.option(
        "--log-format", type=click.Choice(("text", "json")), default="text", show_default=True,
        envvar="DISTSVC_LOG_FORMAT",
        help="Log in sentences, or one JSON object per line; also set by DISTSVC_LOG_FORMAT.",
    ),
)  # fmt: skip
"""A decorator that adds the options for progress and log, which go to standard error."""

short_keys = added(*map(_short_option, SHORT_OPTIONS))
"""The options of `SHORT_OPTIONS`."""


def option_words(**given: object) -> list[str]:
    """Return arguments as options to print in a command line, such as --run-date=2026-11-25.

    Arguments that are False, None or empty are left out.
    """
    named = {name.replace("_", "-"): value for name, value in given.items() if value}
    return [f"--{name}" + ("" if value is True else f"={value}") for name, value in named.items()]


OBJECTS: dict[str, Any] = {
    "display": Display, "at": ClusterAddress, "start": Start,
}  # fmt: skip
"""Classes whose fields are options of a command, by the parameter that takes the instance."""


def with_objects(options: dict[str, Any]) -> Display:
    """Combine options into instances of the classes in `OBJECTS`, and return the display.

    In `options`, the instances replace the options in place.
    """
    for name, kind in OBJECTS.items():
        fields = [field for field in kind.__match_args__ if field in options]
        if fields:
            options[name] = kind(**{field: options.pop(field) for field in fields})
    display: Display = options.get("display", DEFAULT_DISPLAY)
    if display.quiet and display.verbose:
        raise click.UsageError("--quiet and --verbose are both given: expected one of them")
    return display


def short_overrides(settings: Iterable[str], given: dict[str, Any]) -> dict[str, Any]:
    """Return the values of short options such as --clusters, by the job's key.

    `UsageError` if --set gives the same key.
    """
    from distsvc.job.file import present_name

    keys = {SHORT[name]: value for name, value in given.items() if value is not None}
    for setting in settings:
        key = present_name(setting.partition("=")[0].strip())
        if key in keys:
            name = next(name for name, of in SHORT.items() if of == key).replace("_", "-")
            raise click.UsageError(f"--{name} and --set {key} are both given: expected one of them")
    return keys


def hint_of_option(error: click.NoSuchOption) -> str:
    """Return a hint for an unknown option: a key of the job, a similar option, or all options."""
    command, name = error.ctx.command if error.ctx else None, error.option_name
    names = {of.name for of in command.params} if command else set()
    likely = [option for option in error.possibilities or () if option != "--help"]
    key = SHORT.get(name.lstrip("-").replace("-", "_"))
    takes_keys = "settings" in names and error.ctx and error.ctx.info_name != "predict"
    if key and not takes_keys:
        return f"; it is an option of distsvc run, or {key} in a job file"
    if takes_keys:
        from distsvc.job.file import keys_like

        short = {key: f"--{name.replace('_', '-')}" for name, key in SHORT.items() if name in names}
        keys = keys_like(name, 1.0) or ([] if likely else keys_like(name))
        likely = [short.get(key, f"--set {key}=VALUE") for key in keys] or likely
        if not likely:
            return "; a key of the job file is given by --set SECTION.KEY=VALUE"
    if likely:
        return f"; did you mean {' or '.join(likely)}?"
    known = [of.opts[0] for of in command.params if isinstance(of, click.Option)] if command else []
    return f"; the options are {', '.join(known)}" if known else ""
