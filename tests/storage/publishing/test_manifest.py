"""A manifest is checked before anything that it lists is read."""

import hashlib
import json

import pytest

from distsvc.errors import DataError, InputNotFoundError
from distsvc.storage.places.folder import Folder
from distsvc.storage.publishing.manifest import checked, listed_file, read_manifest

CONTENT = b"what is published"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = {"file": "model/model.json", "stored": "model/model.json"}
FILE |= {"bytes": len(CONTENT), "sha256": SHA256}
MANIFEST = {
    "format": 2,
    "run_id": "ab12",
    "job_sha256": "0" * 64,
    "input_sha256": "f" * 64,
    "rows": 3,
    "clusters": 1,
    "files": [FILE],
    "job": {"input": {}},
}


def write(folder, manifest=MANIFEST, **changes):
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model/model.json").write_bytes(CONTENT)
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    return folder


def test_a_listed_file_is_found_and_checked(tmp_path):
    manifest = read_manifest(Folder(write(tmp_path)))
    assert manifest.dumped() == MANIFEST
    file = listed_file(Folder(tmp_path), manifest, "model.json")
    assert checked(Folder(tmp_path), file) == tmp_path / "model/model.json"


def test_a_file_in_the_folder_of_its_run(tmp_path):
    (tmp_path / "model/ab12").mkdir(parents=True)
    (tmp_path / "model/ab12/model.json").write_bytes(CONTENT)
    (tmp_path / "elsewhere").symlink_to(tmp_path)
    files = [FILE | {"file": "model/ab12/model.json"}]
    manifest = read_manifest(Folder(write(tmp_path, files=files)))
    assert listed_file(Folder(tmp_path), manifest, "model.json").file == "model/ab12/model.json"
    checked(Folder(tmp_path / "elsewhere"), manifest.files[0])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format": "1"}, "format: expected a valid integer, found '1'"),
        ({"format": None}, "format: expected a valid integer, found None"),
        ({"format": 1.0}, "format: expected a valid integer, found 1.0"),
        ({"job_sha256": "0" * 63}, "job_sha256: expected .*, found '000"),
        ({"input_sha256": 7}, "input_sha256: expected a valid string, found 7"),
        ({"rows": -1}, "rows: expected greater than or equal to 0, found -1"),
        ({"rows": 10**4000}, "rows: expected less than or equal to 9223372036854775807, found"),
        ({"clusters": True}, "clusters: expected a valid integer, found True"),
        ({"files": {}}, "files: expected a valid list, found {}"),
        ({"files": [FILE, FILE]}, "files: expected every file once, found 'model/model.json'"),
        ({"files": [FILE | {"bytes": 1.0}]}, "files.0.bytes: expected a valid integer, found 1.0"),
        ({"files": [FILE | {"sha256": SHA256.upper()}]}, "files.0.sha256: expected"),
        ({"files": [{"file": "a"}]}, r"files.0.stored is missing \(and 2 more\)"),
        *(
            ({"files": [FILE | {"file": file}]}, "files.0.file: expected a ")
            for file in ("/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "", ".", "a\0", 3)
        ),
    ],
)
def test_a_manifest_of_another_form(tmp_path, change, why):
    write(tmp_path, **change)
    with pytest.raises(DataError, match=rf"manifest\.json: {why}") as found:
        read_manifest(Folder(tmp_path))
    assert str(found.value).isprintable()
    assert len(str(found.value)) < 500


def test_no_manifest(tmp_path):
    with pytest.raises(InputNotFoundError, match=r"it has no manifest\.json"):
        read_manifest(Folder(tmp_path))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (CONTENT + b"!", "expected 17 bytes, as manifest.json says, found 18"),
        (CONTENT[::-1], f"expected the SHA-256 {SHA256}, as manifest.json says, found "),
        (None, "which manifest.json lists, can't be read: .*No such file"),
    ],
)
def test_a_file_that_differs_from_the_manifest(tmp_path, content, why):
    manifest = read_manifest(Folder(write(tmp_path)))
    path = tmp_path / "model/model.json"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(DataError, match=rf"model/model\.json[:,] {why}"):
        checked(Folder(tmp_path), manifest.files[0])


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "run").mkdir()
    write(tmp_path / "other")
    (tmp_path / "run/model").symlink_to(tmp_path / "other/model")
    (tmp_path / "run/manifest.json").write_text(json.dumps(MANIFEST))
    manifest = read_manifest(Folder(tmp_path / "run"))
    with pytest.raises(DataError, match=r"model\.json is a link out of .*, which is not followed"):
        checked(Folder(tmp_path / "run"), manifest.files[0])


def test_a_name_that_is_not_listed_once(tmp_path):
    manifest = read_manifest(Folder(write(tmp_path, files=[FILE, FILE | {"file": "model.json"}])))
    with pytest.raises(DataError, match=r"manifest\.json: expected one file model\.json, found 2"):
        listed_file(Folder(tmp_path), manifest, "model.json")
    with pytest.raises(DataError, match=r"manifest\.json: expected one file x, found 0"):
        listed_file(Folder(tmp_path), manifest, "x")
