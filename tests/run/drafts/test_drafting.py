"""Drafts of job files: the profile of a table, and a draft that runs."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import DataError
from distsvc.job.file import load_job
from distsvc.run.drafts.asked_job import asked_job
from distsvc.run.drafts.drafting import draft, profile_table
from distsvc.run.job import run_job
from distsvc.storage.rows.features import levels_of

N = 500


def mixed():
    random = np.random.default_rng(0)
    gaps = np.where(np.arange(N) % 100 == 7, np.nan, random.normal(size=N))
    return pa.table({
        "nr": np.arange(N), "userId": random.integers(0, 9**9, N),
        "bytes": random.lognormal(8.0, 2.0, N), "rare": np.where(np.arange(N) % 50 == 3, 1.0, 0.0),
        "plain": random.normal(100.0, 30.0, N), "waits": random.exponential(100.0, N),
        "gaps": gaps, "country": random.choice(["DE", "FR"], N),
        "Class": random.choice(["a", "b"], N),
    })  # fmt: skip


def uncommented(text, key):
    """Return the value of a key in a commented line."""
    lines = text.splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith(f"# {key} = "))
    for last in range(first, len(lines)):
        try:
            rest = "\n".join(line.removeprefix("# ") for line in lines[first : last + 1])
            return tomllib.loads(rest)[key]
        except tomllib.TOMLDecodeError:
            continue
    raise AssertionError(f"{key} can't be read")


def unbroken(text):
    return text.replace("\n# ", " ")


def test_the_profile_of_a_table():
    calls = np.random.default_rng(1).poisson(0.6, N)
    calls[5] = 60  # an extreme row, which learning leaves out
    pq.write_table(mixed().append_column("calls", pa.array(calls)), "t.parquet")
    profile = profile_table("t.parquet")
    assert profile.id in profile.table.left_out
    assert (profile.labels, profile.incomplete, profile.encodings) == (["Class"], ["gaps"], {})
    assert [*levels_of(profile.table.features), profile.n_rows] == ["country", "Class", N]
    kinds = {name: (one.kind, one.scale) for name, one in profile.descriptions.items()}
    assert (kinds["bytes"], kinds["calls"][0]) == (("continuous", "logarithm"), "count")
    assert kinds["country"][0] == kinds["rare"][0] == "binary"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"x": [1.0, np.inf, 2.0], "y": [1.0, 2.0, -np.inf]},
         "column 'x', row 1: expected a finite number below 1e154, found inf; infinite "
         "values are also in 'y'"),
        ({"y": [None, None], "z": [None, None]},
         "t.parquet have no value in any row; mend the table, or add --exclude y,z"),
        ({"x": [1.0]}, "expected at least 2 usable rows, found 1"),
    ],
)  # fmt: skip
def test_init_plan_and_run_refuse_a_table_with_the_same_words(table, words):
    columns = {name: pa.array(values, pa.float64()) for name, values in table.items()}
    pq.write_table(pa.table(columns), "t.parquet")
    commands = [["init"], *([name, "--set", "cluster.workers=0"] for name in ("plan", "run"))]
    for command, *options in commands:
        found = CliRunner().invoke(main, [command, "t.parquet", *options])
        assert (found.exit_code, words in found.stderr) == (65, True), found.stderr


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_the_encoding_follows_from_the_number_of_values(name):
    k = np.arange(N)
    texts = {
        "city": [f"city {i % 60}" for i in k], "name": [f"name {i}" for i in k],
        "note": ["x" * (i + 2) for i in k % 3 * 200], "same": ["a"] * N,
    }  # fmt: skip
    table = pa.table({"x": np.sin(k), "plan": np.array(["a", "b", None])[k % 3], **texts})
    write = pq.write_table if name == "t.parquet" else pyarrow.csv.write_csv
    write(table, name)
    profile = profile_table(name)
    found = profile.encodings, profile.incomplete, profile.table.columns
    assert found == ({"city": "frequency"}, ["plan"], ("x", "plan"))
    assert uncommented(draft(name), "encode") == {"city": "frequency"}


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_draft_is_the_default_job(name, quick_page):
    write = pq.write_table if name == "t.parquet" else pyarrow.csv.write_csv
    write(mixed(), name)
    found = CliRunner().invoke(main, ["init", name, "--out", "job.toml"])
    assert (found.exit_code, found.stdout) == (0, "job.toml\n")
    settings = ["cluster.workers=0", "model.algorithm=imdh"]
    by_draft = load_job("job.toml", settings)
    assert by_draft == asked_job(name, settings=settings)
    with pytest.raises(DataError, match="gaps"):
        run_job(by_draft)
    missing = uncommented(Path("job.toml").read_text(), "missing")
    job = load_job("job.toml", (*settings, f"preprocess.missing={missing}"))
    assert (run_job(job).input.n_rows, job.output.path) == (N, "out/t")


def test_a_draft_shows_the_profile():
    pq.write_table(mixed(), "t.parquet")
    text = draft("t.parquet", "job.toml")
    assert "500 rows, read as Parquet." in unbroken(text)
    assert "Run it by: distsvc run job.toml." in text
    features = uncommented(text, "columns")
    assert {"bytes", "plain", "gaps", "country"} <= set(features)
    assert "nr (looks like an id: nearly every value is different)" in unbroken(text)
    assert uncommented(text, "id") not in features
    assert text.count("# id = ") == 1
    assert [uncommented(text, key) for key in ("classes", "n_clusters")] == ["Class", 5]
    assert "# bytes: continuous, logarithm (most values differ;" in text
    assert tomllib.loads(text)["columns"] == {}


def test_sentinels_are_suggested():
    random = np.random.default_rng(0)
    x, y = random.normal(5.0, 0.2, (2, N))
    x[::50], y[::40] = -999.0, -40.5
    pq.write_table(pa.table({"x": x, "y": y, "z": random.normal(size=N)}), "t.parquet")
    text = draft("t.parquet")
    assert uncommented(text, "missing_values") == [-999, -40.5]
    assert "# if this stands for a missing value in x, y" in text
    pq.write_table(pa.table({"z": random.normal(size=N)}), "u.parquet")
    assert "missing_values" not in draft("u.parquet")


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_only_columns_of_few_values_are_suggested_as_classes(name):
    random = np.random.default_rng(0)
    y, few = random.normal(size=N), random.integers(0, 3, N)
    table = pa.table({"x": random.normal(size=N), "y": y, "class": few, "target": y.round(3)})
    write = pq.write_table if name == "t.parquet" else pyarrow.csv.write_csv
    write(table, name)
    assert profile_table(name).labels == ["class"]
    assert f"read as {'CSV' if name == 't.csv' else 'Parquet'}." in unbroken(draft(name))


def test_the_label_of_svmlight_text_is_suggested_as_classes():
    Path("t.svm").write_text("1 1:2 3:4\n-1 2:1\n")
    assert profile_table("t.svm").labels == ["label"]
    assert "read as svmlight text." in unbroken(draft("t.svm"))


@pytest.mark.parametrize("name", ["bid", "grid", "paid", "Humid"])
def test_words_that_end_like_ids_are_not_ids(name):
    pq.write_table(pa.table({"x": np.sin(np.arange(N)), name: np.arange(N) % 90}), "t.parquet")
    assert profile_table("t.parquet").id is None


def test_vectors_are_compared_by_direction():
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(80.0)), 4)
    pq.write_table(pa.table({"v": vectors}), "t.parquet")
    text = draft("t.parquet")
    assert uncommented(text, "scale") == "auto"
    assert "scale" not in tomllib.loads(text)["preprocess"]


def test_names_of_any_kind():
    names = ['say "a b"', "ä\nö", "  ", "a # b", *(f"a rather long name {k}" for k in range(200))]
    pq.write_table(pa.table({name: np.arange(3.0) for name in names}), "odd 'name'.parquet")
    text = draft("odd 'name'.parquet")
    assert tomllib.loads(text)["input"]["path"] == "odd 'name'.parquet"
    assert uncommented(text, "columns") == names[:100]
    assert "# and 104 more" in text.splitlines()
    assert max(map(len, text.splitlines())) <= 120


def test_a_draft_leaves_out_columns():
    pq.write_table(mixed(), "t.parquet")
    found = CliRunner().invoke(main, ["init", "t.parquet", "--exclude", "Class, waits"])
    assert tomllib.loads(found.stdout)["input"]["exclude"] == ["Class", "waits"]
    assert not {"Class", "waits"} & set(uncommented(found.stdout, "columns"))
    assert CliRunner().invoke(main, ["init", "t.parquet", "--exclude", "no"]).exit_code == 65


def test_drafting_from_the_command_line():
    pq.write_table(mixed(), "t.parquet")
    found = CliRunner().invoke(main, ["init", "t.parquet"])
    assert (found.exit_code, found.stdout) == (0, draft("t.parquet"))
    again = [CliRunner().invoke(main, ["init", "t.parquet", "--out", "j.toml"]) for _ in range(2)]
    assert [one.exit_code for one in again] == [0, 78]
    assert "error: j.toml already exists: remove it" in again[1].stderr
    missing = CliRunner().invoke(main, ["init", "none.parquet", "--out", "k.toml"])
    assert missing.exit_code == 66


def test_a_draft_for_every_night():
    pq.write_table(mixed(), "2026-11-01.parquet")
    init = ["init", "{run_date}.parquet"]
    found = CliRunner().invoke(main, [*init, "--out", "j.toml", "--run-date", "2026-11-01"])
    assert found.exit_code == 0, found.output
    job = load_job("j.toml", (), "2026-11-01")
    assert (*job.input.path, job.input.id) == ("2026-11-01.parquet", "userId")
    assert Path(job.output.path).name == "2026-11-01"
    assert job.continuity.previous[0] == job.output.path.replace("2026-11-01", "2026-10-31")
    text = Path("j.toml").read_text()
    assert re.search(r"\[checks\]\n# max_new_share = 0.2 +# hold a night back if more", text)
    for command in init, ["plan", "j.toml"], ["run", "j.toml"]:
        error = CliRunner().invoke(main, command).stderr
        assert re.search("does not exist; {run_date} is today, .*, unless --run-date", error)


def test_text_that_differs_in_every_row_is_suggested_as_the_id(tmp_path):
    rows = np.arange(200)
    table = pa.table({"member": [f"M-{k}" for k in rows], "x": np.sin(rows), "y": np.cos(rows)})
    pq.write_table(table, tmp_path / "t.parquet")
    assert profile_table(str(tmp_path / "t.parquet")).id == "member"
    spaced = table.set_column(0, "member", pa.array([f"remark {k}" for k in rows]))
    pq.write_table(spaced, tmp_path / "s.parquet")
    assert profile_table(str(tmp_path / "s.parquet")).id is None


def test_a_draft_explains_dates_as_features():
    rows = np.arange(50)
    days = rows.astype("datetime64[D]")
    table = pa.table({"x": np.sin(rows), "y": np.cos(rows), "joined": pa.array(days)})
    pq.write_table(table, "t.parquet")
    assert "joined would be days or seconds since 1970." in unbroken(draft("t.parquet"))
    pq.write_table(table.drop_columns("joined"), "t.parquet")
    assert "1970" not in draft("t.parquet")
