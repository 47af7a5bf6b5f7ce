"""Parquet publishes the parts as they are."""

import pyarrow as pa
import pytest

from distsvc.errors import JobFileError
from distsvc.storage.publishing.formats import output_format
from distsvc.storage.publishing.formats.columns import part_file
from tests.small_parts import LABELS, write_part


def test_the_parts_are_published_as_they_are(tmp_path):
    write_part(tmp_path / part_file(0), 3)
    before = (tmp_path / part_file(0)).read_bytes()
    form = output_format("parquet")
    assert form.publishes_parts
    assert form.begin(tmp_path, tmp_path, [(part_file(0), 3)]) == 0
    assert (tmp_path / part_file(0)).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [part_file(0)]


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.date32()])
def test_every_id_and_column_can_be_held(kind):
    output_format("parquet").check("name", kind, [*LABELS, "reasons"])


def test_an_unknown_format():
    message = r"output\.format must be 'parquet' or 'zarr', found 'orc'"
    with pytest.raises(JobFileError, match=message):
        output_format("orc")
