"""Opening of tables of all formats, and reading of row ranges.

The driver opens a table once. Each worker gets the `Table` as JSON, and reads its own rows.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa

from distsvc.errors import DataError, EmptyInputError, InputNotFoundError, JobFileError
from distsvc.inputs.given import is_numeric, is_text
from distsvc.job.config import BINARY, CATEGORY, IGNORE, ColumnKind, InputConfig, PreprocessConfig
from distsvc.storage.places.location import Location, check_versions, version_of
from distsvc.storage.places.remote import REQUESTS_AT_ONCE
from distsvc.storage.places.store import store_of
from distsvc.storage.rows import columns, features
from distsvc.storage.rows.blocks import MAX_TABLE_ROWS, Block, Span, Table
from distsvc.storage.rows.id_detection import CODE_REASONS, ROW_NUMBER
from distsvc.storage.rows.usable import no_values_error
from distsvc.storage.rows.where import parse_where, where_columns
from distsvc.storage.tables import values
from distsvc.storage.tables.sources import find_sources, source_of


def open_table(
    config: InputConfig,
    staging: str | os.PathLike[str],
    preprocess: PreprocessConfig | None = None,
    known: Sequence[features.Feature] = (),
    kept: Collection[str] = (),
    kinds: Mapping[str, ColumnKind] = MappingProxyType({}),
    mixed: bool = False,
) -> Table:
    """Find a table, read its metadata and choose its features.

    Converted tables go to the folder `staging`, which workers share. `kinds` is the section
    ``[columns]`` of the job. If a saved model is to label the table, `known` are the features of
    this model, and ``input.columns`` lists their columns. Categories without a feature in `known`
    become `Uncounted`.

    Without ``input.columns``, a sample of rows is read to exclude row numbers, ids, dates and
    codes, and to find text that holds only numbers. Columns that the previous run used (`kept`), or
    that ``preprocess`` names, are features even if they are partition keys, a pandas index or
    codes. The columns `kept` come first, in their order, since the previous model has this order.
    If `mixed` is true, categories become codes, and text of few levels is a feature.

    `DataError` if the table or a column can't be used, or if a column's type differs from the
    model's. `JobFileError` if a key of the job does not fit the table, its format or its paths.
    """
    condition = parse_where(config.where) if config.where is not None else None
    locations = [Location.of(path) for path in config.path]
    source, found = find_sources(locations, config.ready)
    if not (found.infos or source.is_store(found.location)):
        raise EmptyInputError(f"{config.shown} has no rows: it is complete, but has no data file")
    found = source.needed(found, condition)
    versions = source.versions(found)  # before anything is read
    encoded, logs = (preprocess.encode, preprocess.log) if preprocess is not None else ({}, ())
    named = [name for name, of in kinds.items() if of.kind == CATEGORY]
    encoding = features.AS_CODES if mixed else features.AS_ONE_HOT
    encode = dict.fromkeys(named, encoding) | dict(encoded)
    as_text = (f.column for f in known if isinstance(f, features.Category | features.TextNumber))
    categories = {*encode, *as_text}
    wanted = {name for name, of in kinds.items() if of.kind != IGNORE}
    ignored = dict.fromkeys(config.exclude, "input.exclude")  # by the key that excludes each
    ignored |= {n: f"columns.{n} = 'ignore'" for n, of in kinds.items() if of.kind == IGNORE}
    readable = config.model_copy(update={"exclude": tuple(ignored)})
    scan = source.scan(found, readable, store_of(staging), categories)
    missing = [repr(n) for n in kept if n not in scan.types and n not in scan.problems]
    if missing and config.columns is None:
        raise DataError(
            f"{config.shown} lacks {columns.truncated(missing)}, used by the previous run: if a "
            "column was renamed, rename it back; or continue a night without the column "
            "(--continue-from OUT); or remove continuity.previous, so that cluster ids start at 0"
        )
    for name, key in ignored.items():
        if name not in scan.problems:
            columns.check_column(name, key, config.shown, scan)
    back = tuple(name for name in {**dict.fromkeys(kept), **kinds} if name in scan.apart)
    keys = tuple(key for key in scan.keys if key not in {*kept, *wanted})
    scan = replace(scan, keys=keys, default=scan.default + back)
    n_rows = sum(scan.layout.extents)
    if not n_rows:
        raise EmptyInputError(f"{config.shown} has no rows")
    if n_rows > MAX_TABLE_ROWS or min(scan.layout.extents) < 0:
        raise DataError(
            f"{config.shown} has {n_rows} rows by its metadata, expected at most {MAX_TABLE_ROWS}"
        )
    columns.check_categories(config, scan, set(encoded) - {feature.column for feature in known})
    table = Table(
        layout=scan.layout,
        id=config.id,
        label=config.classes,
        where=config.where,
        sources=scan.sources or tuple(location.address for location in locations),
        versions=versions,
        ready=config.ready,
        missing_values=preprocess.missing_values if preprocess is not None else (),
    )
    others = {*columns.other_columns(config), *categories} & scan.types.keys()
    values.check_unicode(table, [name for name in others if is_text(scan.types[name])])
    apart = {*columns.other_columns(config), *scan.problems, *categories, *ignored}
    given = config.columns
    if given is None:
        given, apart = scan.default, {*apart, *scan.apart, *scan.keys}
    numbers = {feature.column for feature in known if isinstance(feature, features.Numeric)}
    texts, why = values.texts_of_numbers(table, _text_columns(scan, given, apart), numbers)
    columns.check_kinds(config, scan, kinds, {*texts, *(f.column for f in known)})
    binary = [name for name, of in kinds.items() if of.kind == BINARY and name not in texts]
    flags = [name for name in binary if is_text(scan.types[name])]
    encode = dict.fromkeys(flags, encoding) | encode
    categories |= set(flags)
    if mixed:
        apart = {*categories, *ignored, *texts, *scan.problems, *columns.other_columns(config), ""}
        levels, not_few = _text_columns(scan, given, apart), dict[str, str]()
        if config.columns is None:
            rest = [name for name in levels if name not in {*kept, *scan.keys, *scan.apart}]
            few, not_few = values.texts_of_few_levels(table, rest)
            levels = [*(name for name in levels if name in kept), *few]
        encode |= dict.fromkeys(levels, features.AS_CODES)
        categories |= set(levels)
        precise = {name: one for name, one in not_few.items() if one == values.ID_OR_DATE}
        why = not_few | why | precise
        why = {name: one for name, one in why.items() if name not in levels}
    chosen = columns.choose_features(config, scan, {*categories, *texts, *wanted}, ignored)
    order = {name: place for place, name in enumerate(kept)}
    chosen = tuple(sorted(chosen, key=lambda name: order.get(name, len(order))))
    types = {name: scan.types[name] for name in columns.other_columns(config)}
    if condition is not None:  # check it against the types
        condition.mask({name: pa.array([], types[name]) for name in condition.columns})
    table = replace(table, others=pa.schema(list(types.items())))
    blank = [name for name, reason in why.items() if reason == values.NO_VALUES]
    empty = values.columns_without_values(table, [*chosen, *blank] * source.states_width)
    # "drop" and "error" act on each row, so only columns without a type count here.
    if preprocess is not None and preprocess.missing in ("drop", "error"):
        empty = [name for name in empty if name in blank or pa.types.is_null(scan.types[name])]
    needed = {*kept, *wanted, *encoded, *logs, *(f.column for f in known), *(config.columns or ())}
    faulty = [name for name in empty if name in needed or set(chosen) <= set(empty)]
    if faulty and not known:
        raise no_values_error(faulty, table.shown, in_lineage=not set(faulty).isdisjoint(kept))
    why |= {name: values.NO_VALUES for name in empty if name not in needed}
    why |= {name: columns.PLAIN_TEXT for name in blank if name not in empty}
    chosen = tuple(name for name in chosen if name in needed or name not in empty)
    table = replace(
        table,
        types=tuple(str(scan.types[name]) for name in chosen),
        left_out=columns.exclusion_reasons(config, scan, chosen, ignored),
        column_kinds={name: kinds[name] for name in chosen if name in kinds},
        without_values=tuple(name for name in chosen if name in empty),
    )
    table = replace(table, features=_features(table, scan, chosen, logs, encode, known, texts))
    if config.columns is None:
        table = replace(table, left_out=table.left_out | why)
        table = values.without_codes(table, {*kept, *wanted})
        if kept:
            old = {*kept, *encoded, *logs, *wanted}
            new = [f.column for f in table.features if f.column not in old]
            table = values.without_features(table, dict.fromkeys(new, columns.NEW))
    table = values.with_compared(table, scan)
    used = {*table.stored, *columns.other_columns(config)}
    return replace(table, notes=(*found.notes, *source.notes(found, scan, versions, used)))


def _text_columns(scan: columns.Scan, names: Sequence[str], apart: Collection[str]) -> list[str]:
    types = {name: scan.types[name] for name in names if name in scan.types and name not in apart}
    return [name for name, kind in types.items() if is_text(kind)]


def _features(
    table: Table,
    scan: columns.Scan,
    chosen: Sequence[str],
    logs: Sequence[str],
    encode: Mapping[str, str],
    known: Sequence[features.Feature],
    texts: Collection[str] = (),
) -> tuple[features.Feature, ...]:
    """Return a feature for each column in `chosen`.

    A model's feature in `known` is used if there is one. Else the encoding in `encode` decides, or
    else the column's type. The columns `texts` are numbers stored as text.
    """
    own = {feature.column: feature for feature in known}
    _check_logs(logs, scan, chosen)
    found: list[features.Feature] = []
    for name in chosen:
        kind = scan.types[name]
        if name in texts and isinstance(own.get(name), features.Numeric):
            found.append(features.TextNumber(column=name))
        elif name in own:
            if not own[name].takes(kind) and name not in table.without_values:
                raise DataError(
                    f"column {name!r} of {table.shown} is {scan.shown[name]}, expected "
                    f"{own[name].expected}, as in the model"
                )
            found.append(own[name])
        elif name in encode:
            found.append(features.Uncounted(column=name, kind=encode[name]))
        elif features.is_vector(kind):
            width = _length(table, name, kind)
            if width > features.MAX_WIDTH:
                raise columns.too_many_columns(table.shown, width)
            found.append(features.Vector(column=name, width=width, log=name in logs))
        elif is_numeric(kind):
            found.append(features.Log(column=name) if name in logs else features.Numeric(name))
        elif is_text(kind):
            found.append(features.TextNumber(column=name))
        else:
            is_date = pa.types.is_date(kind)
            found.append(features.Time(column=name, unit="days" if is_date else "seconds"))
    columns.check_names(table.shown, found)
    return tuple(found)


def _check_logs(logs: Sequence[str], scan: columns.Scan, chosen: Sequence[str]) -> None:
    """Raise `JobFileError` if ``preprocess.log`` names no numeric feature."""
    for name in logs:
        kind = scan.types.get(name)
        fits = kind is not None and (is_numeric(kind) or features.is_vector(kind))
        if fits and name in chosen:
            continue
        found = f", which is {scan.shown[name]}" if name in scan.shown else ""
        whole = name.rpartition("[")[0]
        if whole in chosen and features.is_vector(scan.types[whole]):
            found = f"; for the logarithms of all numbers of the vector, give {whole!r}"
        raise JobFileError(
            f"preprocess.log: expected features that hold numbers, found {name!r}{found}"
        )


def _length(table: Table, column: str, kind: pa.DataType) -> int:
    """Return the length of a column's vectors, from the type or the first row."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for batch in source_of(table).batches(table, Span(0, table.n_rows, 1024), [column]):
        known = batch[column].drop_null()
        if len(known) and len(known[0]):
            return len(known[0])
        if len(known):
            raise DataError(
                f"{table.shown}: column {column!r}: found a list without numbers, expected numbers"
            )
    raise no_values_error([column], table.shown)


def read_blocks(table: Table, span: Span) -> Iterator[Block]:
    """Yield the rows of a span in order, in blocks of at most `span.block_rows` rows.

    A block is shorter if ``where`` drops rows, and is left out if it is empty. `DataError` if the
    data is damaged or unreadable, and `TemporaryError` if the store does not answer.
    """
    return source_of(table).blocks(table, span)


def check_unchanged(table: Table) -> None:
    """Raise `DataError` for a file that was changed, removed or added since a table was opened."""
    if table.layout.lake:
        folder, names = source_of(table).folder(table), list(table.versions)
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            now = pool.map(lambda name: version_of(folder.join(name)), names)
            check_versions(folder, table.versions, dict(zip(names, now, strict=True)))
        return
    locations = [Location.of(address) for address in table.sources]
    try:
        source, found = find_sources(locations, table.ready)
        versions = source.versions(found)
    except InputNotFoundError as error:
        gone = next((one for one in locations if not one.info()), locations[0])
        raise DataError(f"{gone.shown} was removed while the table was in use") from error
    check_versions(found.folder, table.versions, versions)


def fingerprint(table: Table) -> str:
    """Return a SHA-256 of a table's state when it was opened.

    It covers the format, the features, the types, the deleted rows of a Delta or Iceberg table, and
    each file's name, size, and ETag or time of modification.
    """
    others = {name for name in (table.id, table.label, *where_columns(table.where)) if name}
    types = [*table.types, *(f"{name}: {table.type_of(name)}" for name in sorted(others))]
    files = [(name, version.size, version.tag) for name, version in table.versions.items()]
    content = [table.layout.format, table.stored, types, table.layout.extents, files]
    if table.layout.lake:
        content.append(table.layout.lake.digest)
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def notes_on_columns(table: Table) -> list[str]:
    """Return warnings about choices that were guessed from values.

    Examples are columns left out since they look like ids, and text that is read as numbers.
    """
    guessed = {columns.PANDAS_INDEX, columns.NOT_UTF8, values.MIXED_TEXT, values.ID_OR_DATE}
    guessed |= {values.NO_VALUES, *CODE_REASONS}
    out = {name: why for name, why in table.left_out.items() if why in guessed}
    texts = [repr(one.column) for one in table.features if isinstance(one, features.TextNumber)]
    notes = []
    if out:
        listed = columns.truncated([f"{name!r} ({why})" for name, why in out.items()])
        notes.append(f"not used as features: {listed}")
    inside = columns.NESTED.partition("{")[0]
    nested = [f"{name!r} ({why})" for name, why in table.left_out.items() if why.startswith(inside)]
    if nested:
        notes.append(f"not used as features: {columns.truncated(nested)}; {columns.UNNEST}")
    units = [repr(name) for name, why in table.left_out.items() if why == values.WITH_UNIT]
    if units:
        notes.append(
            "not used as features, because their numbers have units: "
            f"{columns.truncated(units)}; remove the units to use them"
        )
    if texts:
        notes.append(
            f"text read as numbers: {columns.truncated(texts)}; to leave columns out, list the "
            "features in input.columns"
        )
    return notes


def shown_columns(table: Table) -> dict[str, str]:
    """Return the log's fields about the columns of a table, each as text.

    "used" lists the features, and "left_out" lists all other columns with the reasons. "may_be_id"
    is a column that looks like an id, if the job names no id.
    """
    others = [f"{name} ({reason})" for name, reason in table.left_out.items()]
    used = [feature.shown for feature in table.features]
    found = {"used": columns.truncated(used), "left_out": columns.truncated(others) or "none"}
    ids = [name for name, why in table.left_out.items() if why in (ROW_NUMBER, values.TEXT_ID)]
    return found | {"may_be_id": ids[0]} if ids and table.id is None else found


def id_type(table: Table) -> pa.DataType:
    """Return the type of row ids: the id column's type, or int64 for row numbers."""
    return pa.int64() if table.id is None else table.type_of(table.id)
