"""Published labels are read whole, from listed files only, or are refused with one error."""

import json
import os
import shutil

import pytest

import distsvc
from distsvc.errors import DataError
from distsvc.published.predict import predict_table
from distsvc.published.status import status
from distsvc.run.job import run_job
from tests.small_runs import MODELS, listed_again, small_job, three_clusters, write_table

FORMATS = ("parquet", "zarr")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A small run in each format, by name; three parts."""
    folder = tmp_path_factory.mktemp("runs")
    table = write_table(folder / "t.parquet", three_clusters(900))
    for name in FORMATS:
        out = {"path": str(folder / name), "format": name}
        run_job(small_job(table, MODELS["sampled"], output=out))
    return folder


@pytest.fixture(params=FORMATS)
def out(published, tmp_path, request):
    """A copy of a run, to be damaged."""
    return shutil.copytree(published / request.param, tmp_path / "out")


@pytest.fixture
def parquet(published, tmp_path):
    return shutil.copytree(published / "parquet", tmp_path / "out")


def changed(folder, change):
    """Change the content of a manifest."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return content


def labels_of(content):
    return [file for file in content["files"] if file["file"].startswith("labels/")]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_part_that_is_not_listed(parquet, published, which):
    changed(parquet, lambda content: content["files"].remove(labels_of(content)[which]))
    expected = (
        r"manifest\.json: .*expected files of labels with 900 rows, found 600 rows in 2 files"
    )
    ways = (
        lambda: distsvc.load(parquet),
        lambda: status(str(parquet)),
        lambda: predict_table(parquet, str(published / "t.parquet"), str(parquet) + "-2"),
    )
    for way in ways:
        with pytest.raises(DataError, match=expected):
            way()


@pytest.mark.parametrize(("more", "lost", "found"), [(0, 1, 600), (1, 0, 900)])
def test_a_list_without_rows_is_counted_as_it_is_read(parquet, more, lost, found):
    def change(content):
        content["rows"] += more
        for file in labels_of(content)[:lost]:
            content["files"].remove(file)
        for file in labels_of(content):
            del file["rows"]

    changed(parquet, change)
    message = rf"expected {900 + more} rows of labels, .* found {found} in its files"
    with pytest.raises(DataError, match=message):
        distsvc.load(parquet).labels("label")


def test_a_chunk_that_is_not_listed(published, tmp_path):
    out = shutil.copytree(published / "zarr", tmp_path / "out")

    def change(content):
        chunk = next(f for f in content["files"] if f["file"].endswith("label/c/0"))
        content["files"].remove(chunk)

    changed(out, change)
    with pytest.raises(
        DataError, match=r"label: expected an array .*, chunks: 1; found .*, chunks: 0"
    ):
        distsvc.load(out).labels("label")


@pytest.mark.parametrize("text", ["{}", "[]", '{"attributes": {"id": 3}}', '{"attributes": 0}'])
def test_odd_metadata_of_a_group(published, tmp_path, text):
    out = shutil.copytree(published / "zarr", tmp_path / "out")
    [folder] = (out / "labels").iterdir()
    (folder / "zarr.json").write_text(text)
    listed_again(out)
    with pytest.raises(DataError, match=r"zarr\.json: "):
        distsvc.load(out).labels()


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(files=[]),
        lambda content: [content["files"].remove(file) for file in labels_of(content)],
        lambda content: content["files"].append(
            content["files"][0] | {"file": "labels/more.txt", "rows": None}
        ),
    ],
    ids=["no files", "no labels", "an unknown file"],
)
def test_labels_of_no_format(parquet, change):
    changed(parquet, change)
    with pytest.raises(DataError, match=r"manifest\.json: expected files of labels"):
        distsvc.load(parquet).labels()


def test_a_column_that_no_file_has(out):
    changed(out, lambda content: content["schema"].update(more="int32"))
    with pytest.raises(DataError, match="more"):
        distsvc.load(out).labels()


def test_a_manifest_without_columns(out):
    changed(out, lambda content: content.pop("schema"))
    with pytest.raises(DataError, match=r"manifest\.json: expected a schema"):
        distsvc.load(out).labels()


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("odd", [pipe, device, os.mkdir], ids=["pipe", "device", "folder"])
@pytest.mark.parametrize("name", ["manifest.json", ".runs/holder.json"])
def test_a_folder_or_a_pipe_in_place_of_a_file(parquet, published, odd, name):
    path = parquet / name
    path.unlink(missing_ok=True)
    odd(path)
    job = small_job(published / "t.parquet", MODELS["sampled"], output={"path": str(parquet)})
    ways = [lambda: status(str(parquet)), lambda: run_job(job)]
    if name == "manifest.json":
        ways.append(lambda: distsvc.load(parquet))
    for way in ways:
        with pytest.raises(DataError, match=rf"can't read {path}: it is not a file"):
            way()
