"""A lineage outlives kills; and the harness sees what would end one."""

import json
import shutil

import pytest

from chaos.lab import Lab
from chaos.lineage import Lineage, day_of, killed_lineage


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    made = Lab(tmp_path_factory.mktemp("lab"))
    yield made
    made.close()


def test_a_lineage_outlives_kills(lab):
    found = killed_lineage(lab, 3, kills=6)
    assert found["problems"] == []
    assert int(found["what"].split()[0]) >= 6


def test_what_would_end_a_lineage_is_seen(lab):
    lineage = Lineage(lab, 4)
    lineage.prepare()
    assert lineage.wrong() == []
    out = lineage.out / day_of(3)
    said = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(said | {"previous": None} | {"run_id": "x"}))
    begun = lineage.out / day_of(4) / ".runs/0123456789ab-01234567"
    begun.mkdir(parents=True)
    (begun / "begun.json").write_text("{}")
    (begun / "previous.json").write_text(
        json.dumps({"run_id": said["run_id"], "address": str(out)})
    )
    assert any("gone" in problem for problem in lineage.wrong())
    (begun / "previous.json").unlink()
    assert any("does not say" in problem for problem in lineage.wrong())
    said.pop("previous")
    (out / "manifest.json").write_text(json.dumps(said))
    assert any("begins a lineage" in problem for problem in lineage.wrong())
    shutil.rmtree(out / "labels")
    assert any("is not whole" in problem for problem in lineage.wrong())
    lineage.judge("run", lineage.run(4), 78, "error: that is not published any more")
    assert lineage.problems
