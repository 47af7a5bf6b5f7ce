"""The options that several commands have, and the short forms of the commonest keys.

What needs the job's configuration imports it when it is used: ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from distsvc.run.work.start import ClusterAddress, Display

Command = TypeVar("Command", bound=Callable[..., Any])

SHORT = {
    "clusters": "model.n_clusters",
    "max_clusters": "model.max_clusters",
    "min_cluster_rows": "model.min_cluster_rows",
    "label": "input.label",
    "id": "input.id",
    "out": "output.path",
    "columns": "input.columns",
    "exclude": "input.exclude",
    "where": "input.where",
    "scale": "preprocess.scale",
    "missing": "preprocess.missing",
    "algorithm": "model.algorithm",
    "seed": "model.seed",
}
"""The keys that have an option of their own, by its name."""


class Place(click.ParamType):
    """A path or a URL. A shell completes it as a file; what is there is the command's business."""

    name = "text"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """Let the shell look for files."""
        return [CompletionItem(incomplete, type="file")]


class WordOf(click.ParamType):
    """One of the words that a key of the job file takes."""

    name = "word"

    def __init__(self, key: str):
        self.key = key

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the word, if it is one of them."""
        words = self._words()
        if value not in words:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, words))}.", param, ctx)
        return value

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """Offer the words that begin so."""
        return _offered(self._words(), incomplete)

    def _words(self) -> tuple[str, ...]:
        from distsvc.job.file import known_keys

        return known_keys()[self.key]


class Names(click.ParamType):
    """Names of columns, with commas between them."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the names as a list."""
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


class Setting(click.ParamType):
    """``section.key=value``; a shell completes the key, and the value where it is a word."""

    name = "setting"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """Offer keys, and after the equals sign the words that the key takes."""
        from distsvc.job.file import known_keys

        key, equals, _ = incomplete.partition("=")
        if not equals:
            return _offered([f"{name}=" for name in known_keys()], incomplete)
        return _offered([f"{key}={word}" for word in known_keys().get(key, ())], incomplete)


def _offered(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


SET = click.option(
    "--set",
    "settings",
    type=Setting(),
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Override a key of the job; may be given several times.",
)
RUN_DATE = click.option(
    "--run-date", metavar="DATE", help="What {run_date} stands for; today by default."
)
FRESH = click.option(
    "--fresh", is_flag=True, help="Start over instead of going on after an interruption."
)
METRICS_FILE = click.option(
    "--metrics-file",
    type=Place(),
    metavar="FILE",
    help="The file for Prometheus' metrics, written whatever the exit code is.",
)


EXCLUDE = click.option(
    "--exclude", type=Names(), metavar="A,B", help="Columns that are not used; none by default."
)


def cluster_options(command: Command) -> Command:
    """Give a command the options that say where the cluster is."""
    return _with(
        command,
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="The address of a Dask scheduler, e.g. tcp://10.0.0.5:8786.",
        ),
        click.option(
            "--scheduler-file",
            type=Place(),
            metavar="FILE",
            help="The file that a Dask scheduler wrote.",
        ),
        click.option("--require-tls", is_flag=True, help="Refuse a scheduler that is not tls://."),
    )


def display_options(command: Command) -> Command:
    """Give a command the options that say what standard error shows."""
    return _with(
        command,
        click.option("--quiet", is_flag=True, help="Show no progress and no log, only errors."),
        click.option("--verbose", is_flag=True, help="Show every event, with all its fields."),
        click.option(
            "--log-format",
            type=click.Choice(("text", "json")),
            default="text",
            show_default=True,
            envvar="DISTSVC_LOG_FORMAT",
            help="Sentences, or a JSON object a line; also DISTSVC_LOG_FORMAT.",
        ),
    )


def display_of(options: dict[str, Any]) -> Display:
    """Return what is to be shown, of a command's options, which are taken out."""
    display = Display(*(options.pop(name) for name in Display._fields))
    if display.quiet and display.verbose:
        raise click.UsageError("--quiet and --verbose are both given: expected one of them")
    return display


def short_keys(command: Command) -> Command:
    """Give a command the short forms of the commonest keys, those of `SHORT`."""
    return _with(
        command,
        click.option(
            "--clusters",
            type=click.IntRange(1),
            metavar="K",
            help="The number of clusters; found by default.",
        ),
        click.option(
            "--max-clusters",
            type=click.IntRange(1),
            metavar="K",
            help="The most clusters; the smallest go with their nearest one.",
        ),
        click.option(
            "--min-cluster-rows",
            type=click.IntRange(1),
            metavar="N",
            help="The least rows of a cluster; a smaller one goes with its nearest one.",
        ),
        click.option(
            "--label",
            metavar="NAME",
            help="The column of known classes; it only scores the result.",
        ),
        click.option("--id", metavar="NAME", help="The column of ids, copied to the labels."),
        click.option(
            "--out", type=Place(), metavar="OUT", help="Where the result goes, instead of out/NAME."
        ),
        click.option(
            "--columns", type=Names(), metavar="A,B,C", help="The columns used; all by default."
        ),
        EXCLUDE,
        click.option("--where", metavar="FILTER", help="The rows used, e.g. 'amount > 0'."),
        click.option(
            "--scale",
            type=WordOf("preprocess.scale"),
            metavar="HOW",
            help="The scale: standard, minmax, robust, unit, none or auto.",
        ),
        click.option(
            "--missing",
            type=WordOf("preprocess.missing"),
            metavar="HOW",
            help="Missing values: auto (the default), error, drop or median.",
        ),
        click.option(
            "--algorithm",
            type=WordOf("model.algorithm"),
            metavar="NAME",
            help="The algorithm: auto (the default), support-vector, imdh, linear-svdd or another.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0),
            metavar="N",
            help="The seed of random choices; 0 by default.",
        ),
    )


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    """Give a command options, in the order of its help."""
    for option in reversed(options):
        command = option(command)
    return command


def split_options(
    settings: Iterable[str], options: dict[str, Any]
) -> tuple[dict[str, Any], ClusterAddress]:
    """Return the keys that short forms override, and where the cluster is, of a command's options.

    `settings` are those of ``--set``; a key that both give is wrong usage.
    """
    given = {name: options.pop(name) for name in SHORT if name in options}
    keys = {SHORT[name]: value for name, value in given.items() if value is not None}
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if key in keys:
            name = next(name for name, of in SHORT.items() if of == key)
            name = name.replace("_", "-")
            raise click.UsageError(f"--{name} and --set {key} are both given: expected one of them")
    return keys, ClusterAddress(**options)


def hint_of_option(error: click.NoSuchOption) -> str:
    """Return what is said of an unknown option that may be a key of the job, or nearly another.

    It is empty where nothing helps.
    """
    command, name = error.ctx.command if error.ctx else None, error.option_name
    names = {of.name for of in command.params} if command else set()
    likely = list(error.possibilities or ())
    if "settings" in names:
        from distsvc.job.file import keys_like, keys_named

        short = {key: f"--{name.replace('_', '-')}" for name, key in SHORT.items() if name in names}
        keys = keys_named(name) or ([] if likely else keys_like(name))
        likely = [short.get(key, f"--set {key}=VALUE") for key in keys] or likely
        if not likely:
            return "; a key of the job file is given by --set SECTION.KEY=VALUE"
    return f"; did you mean {' or '.join(likely)}?" if likely else ""
