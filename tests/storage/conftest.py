import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.small_tables import LAYOUTS, sample


@pytest.fixture(scope="session")
def layouts(tmp_path_factory):
    """The folders of `LAYOUTS`, each with its whole table from one read."""
    made = {}
    for name, parts in LAYOUTS.items():
        folder = tmp_path_factory.mktemp("layout")
        tables = [sample(n, seed) for seed, (n, _) in enumerate(parts)]
        for i, (data, (_, group)) in enumerate(zip(tables, parts, strict=True)):
            pq.write_table(data, folder / f"part-{i}.parquet", row_group_size=group)
        made[name] = (folder, pa.concat_tables([t.unify_dictionaries() for t in tables]))
    return made
