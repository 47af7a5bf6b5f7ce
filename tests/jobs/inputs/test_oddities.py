"""Odd job files, names, filters and values end in one line, or in a run that is whole."""

import json
import os
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
from click.testing import CliRunner

from distsvc import IncrementalMDH, LinearOneClassSVM, LinearSVDD, SupportVectorClustering
from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans
from distsvc.cli.main import main
from distsvc.errors import (
    DataError,
    JobFileError,
    ParameterError,
    UnusableRowsError,
    one_line,
    shown,
)
from distsvc.job import file as job_file
from distsvc.job.file import load_job, parse_job
from distsvc.published.predict import predict_table
from distsvc.run.job import run_job
from distsvc.storage.rows.where import parse_where
from tests.published_files import nothing_left

SECTIONS = {"input": {"path": "in.parquet"}, "output": {"path": "out"}}


def refused(message: str, error=JobFileError, **sections) -> None:
    with pytest.raises(error) as caught:
        parse_job({name: dict(keys) for name, keys in (SECTIONS | sections).items()})
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


# Messages


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb\r\tc\x00\x1b[31m", r"a\nb\r\tc\x00\x1b[31m"),
        ("\u202eabc\u2028\ud800", r"\u202eabc\u2028\ud800"),
        ("Größe 日本 → ok", "Größe 日本 → ok"),
    ],
)
def test_one_line(text, line):
    assert one_line(text) == one_line(one_line(text)) == line
    assert str(DataError(text)) == line


def test_long_words_and_texts_lose_their_middle():
    assert one_line(f"before {'9' * 5000} after") == f"before {'9' * 149}…{'9' * 149} after"
    text = one_line("one " * 2000 + "end")
    assert len(text) < 2001
    assert (text[:8], text[-8:]) == ("one one ", " one end")
    short = "x" * 300
    assert one_line(short) == short


def test_values_that_python_does_not_spell_out():
    assert shown("a") == "'a'"
    assert shown(10**5000) == "a int too long to show"
    assert len(shown([1] * 5000)) < 301


# Job files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + "[" * 5000, "not valid TOML: brackets are nested too deeply"),
        ("a = " + "{a=" * 5000, "not valid TOML: brackets are nested too deeply"),
        ("a = " + "9" * 5000, "expected numbers of at most 4300 digits"),
        ("[model]\nseed = 0x" + "f" * 5000, "found a int too long to show"),
        ('[input]\npath = "a"\npath = "b"', "not valid TOML: Cannot overwrite a value"),
        ("#" * (job_file.MAX_FILE_BYTES + 1), "expected at most 4194304 bytes, found more"),
    ],
)
def test_odd_toml(tmp_path, content, message):
    (tmp_path / "job.toml").write_text(content)
    with pytest.raises(JobFileError, match=message) as caught:
        load_job(tmp_path / "job.toml")
    assert "job.toml" in str(caught.value)


def test_a_byte_order_mark(tmp_path):
    (tmp_path / "job.toml").write_text(tomli_w.dumps(SECTIONS), encoding="utf-8-sig")
    assert load_job(tmp_path / "job.toml").input.path == ("in.parquet",)


def test_a_pipe_is_a_job_file(tmp_path):
    os.mkfifo(tmp_path / "job")
    text = tomli_w.dumps(SECTIONS | {"model": {"seed": 3}}) + "#" * 200_000
    writer = threading.Thread(target=(tmp_path / "job").write_text, args=(text,))
    writer.start()
    job = load_job(tmp_path / "job")
    writer.join()
    assert job.model.seed == 3


def test_an_endless_file_is_none():
    with pytest.raises(JobFileError, match="expected at most 4194304 bytes, found more"):
        load_job("/dev/zero")


@pytest.mark.parametrize("path", ["a\0b", "n" * 300, "/".join(["n" * 200] * 30)])
def test_a_path_that_no_file_system_takes(path):
    with pytest.raises(JobFileError, match=r"job file .* can't be read"):
        load_job(path)
    refused("job: output.path must be a path ", output={"path": path})
    refused("job: input.path must be a path ", input={"path": path})


def test_a_url_may_be_long():
    url = f"https://example.org/{'n' * 3000}/a.parquet"
    assert parse_job({"input": {"path": url}, "output": {"path": "out"}}).input.path == (url,)


@pytest.mark.parametrize("value", ["[", "[" * 3000, "9" * 5000, '"x', "1\nb = 2", "{"])
def test_set_to_what_is_no_toml_is_text(tmp_path, value):
    (tmp_path / "job.toml").write_text(tomli_w.dumps(SECTIONS))
    with pytest.raises(JobFileError, match=r"model\.seed must be a whole number, found '"):
        load_job(tmp_path / "job.toml", (f"model.seed={value}",))


# Filters


def test_a_filter_with_text_that_is_no_unicode():
    with pytest.raises(DataError, match=r"compares column 's' \(text\) with '\\\\?ud800'"):
        parse_where("s == '\ud800'").mask({"s": pa.array(["a"])})


# Names


@pytest.fixture
def folder(tmp_path, monkeypatch, no_signals):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(columns, name="in.parquet"):
    pq.write_table(pa.table(columns), name)


def table(n=60):
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=n) + 6.0 * (np.arange(n) % 2), "y": rng.normal(size=n)}


def job(model=None, **sections):
    given = {"algorithm": "bico", "n_clusters": 2, "n_init": 1} if model is None else model
    content = {"model": given, "preprocess": {"scale": "minmax"}, "cluster": {"workers": 0}}
    content |= {"input": {"path": "in.parquet"} | sections.pop("input", {})}
    content |= {"output": {"path": "out"} | sections.pop("output", {})}
    return parse_job(content | sections)


@pytest.mark.parametrize("name", ["label", "score", "outlier", "reasons"])
def test_an_id_named_like_a_published_column(folder, name):
    write(table() | {name: np.arange(60)})
    of_linear = {"model": {"algorithm": "linear-svdd"}, "output": {"reasons": 1}}
    with pytest.raises(JobFileError, match=rf"^input\.id = '{name}' is also the name of a "):
        run_job(job(input={"id": name}, **of_linear if name == "reasons" else {}))
    assert nothing_left(folder / "out")


def test_an_id_named_row(folder):
    write(table() | {"row": np.arange(60)})
    run_job(job(input={"id": "row"}))
    [part] = (folder / "out").glob("labels/**/*.parquet")
    assert pq.read_schema(part).names == ["row", "label", "score", "outlier"]


ODD_NAMES = ("a\nb", "\x1b[31m\x00", "</script>\u202e\"'`", "n" * 100_000, "", " x ")


def test_odd_names_of_columns(folder):
    """They are on the page and in the report as they are, and in what is printed on one line."""
    write({name: table()["x"] for name in ODD_NAMES} | {"flat\nline": np.zeros(60)})
    content = job().model_dump(exclude_none=True, exclude={"model"}) | {
        "model": {"algorithm": "linear-svdd"}
    }
    (folder / "job.toml").write_text(tomli_w.dumps(content))
    found = CliRunner().invoke(main, ["run", "job.toml"])
    assert found.exit_code == 0, found.stderr
    assert r"warning: constant columns, which do not change the result: flat\nline" in found.stdout
    assert all(json.loads(line) for line in found.stderr.splitlines())
    report = json.loads((folder / "out" / "report.json").read_text())
    assert set(ODD_NAMES) - {""} < set(report["input"]["columns"])
    assert report["input"]["left_out"][""] == "a column without a name, such as an index"
    page = (folder / "out" / "report.html").read_text()
    assert page.rstrip().endswith("</html>")
    assert "</script>\u202e" not in page


def test_an_error_about_an_odd_name_is_one_line(folder):
    write({"a\nb\x1b": [1.0, np.nan], "n" * 5000: [1.0, 2.0]})
    (folder / "job.toml").write_text(tomli_w.dumps(SECTIONS))
    found = CliRunner().invoke(main, ["run", "job.toml", "--missing", "error"])
    assert found.exit_code == 65
    [line] = [line for line in found.stderr.splitlines() if not line.startswith("{")]
    assert r"in.parquet: column 'a\nb\x1b' has 1 missing value in rows 0 to 1 " in line


# Values

ESTIMATORS = {
    "support-vector": (SupportVectorClustering, {"gamma": 1.0, "max_iter": 100}),
    "imdh": (IncrementalMDH, {"n_init": 1}),
    "linear-one-class": (LinearOneClassSVM, {}),
    "linear-svdd": (LinearSVDD, {}),
    "bico": (BICO, {"n_clusters": 2, "n_init": 1}),
    "fuzzy-c-means": (FuzzyCMeans, {"n_clusters": 2}),
    "depddp": (DePDDP, {}),
    "spdc": (SPDC, {}),
}


@pytest.mark.parametrize("algorithm", ESTIMATORS)
def test_values_too_large_to_be_squared(folder, algorithm):
    content, value = table(), 1e19
    content["y"][7:16] = -value  # a few would be set aside
    write(content)
    kind, parameters = ESTIMATORS[algorithm]
    message = rf"column 'y' has values from -{value:g} to .*, so scaled rows are longer than"
    with pytest.raises(UnusableRowsError, match=message.replace("+", r"\+")):
        run_job(job({"algorithm": algorithm} | parameters, preprocess={"scale": "none"}))
    assert nothing_left(folder / "out")
    with pytest.raises(UnusableRowsError, match=r"X has values up to .*, expected rows with a"):
        kind(**parameters).fit(np.column_stack(list(content.values())))


@pytest.mark.parametrize("scale", ["standard", "none"])
def test_values_too_alike_to_be_squared(folder, scale):
    small = {name: values * 1e-300 for name, values in table().items()}
    write(small)
    with pytest.raises(
        UnusableRowsError, match=r"column 'x' has values .* range of at least 1e-15"
    ):
        run_job(job(preprocess={"scale": scale}))
    run_job(job(preprocess={"scale": "minmax"}))
    [part] = (folder / "out").glob("labels/**/*.parquet")
    label = pq.read_table(part)["label"].to_numpy()
    assert (label == label[np.arange(60) % 2]).all()


def test_a_far_row_of_another_table(folder):
    write(table())
    run_job(job())
    new = table()
    new["y"][33] = 1e150
    write(new, "new.parquet")
    message = r"new\.parquet: column 'y', row 33: 1e\+150 is too large for this scaling"
    with pytest.raises(DataError, match=message):
        predict_table("out", "new.parquet", "predicted")
    assert nothing_left(folder / "predicted")


def test_a_trade_off_too_small_for_float32():
    X = np.column_stack(list(table().values()))
    with pytest.raises(ParameterError, match="C must be larger, found 1e-20: at the boundary"):
        SupportVectorClustering(gamma=1.0, C=1e-20, max_iter=100).fit(X)
