"""A lineage outlives kills; and the harness sees what would end one."""

import json
import subprocess
import sys
from types import SimpleNamespace

from chaos.lineage import Lineage, day_of
from chaos.processes import ROOT

RUN = "0123456789ab-01234567"


def test_a_lineage_outlives_kills(tmp_path):
    command = [sys.executable, "-m", "tests.chaos", "--lineage", "3", "--work", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "log.jsonl").read_text())
    assert found["problems"] == []
    assert int(found["what"].split()[0]) >= 3


def test_what_would_end_a_lineage_is_seen(tmp_path):
    lineage = Lineage(SimpleNamespace(work=tmp_path), 0)
    lineage.known.add(RUN)
    out = lineage.out / day_of(3)
    begun = lineage.out / day_of(4) / ".runs" / RUN
    begun.mkdir(parents=True)
    (out / "labels").mkdir(parents=True)
    (out / "labels/part-00000.parquet").write_text("rows")
    file = {"file": "labels/part-00000.parquet", "bytes": 4}
    manifest = {"run_id": RUN, "previous": {}, "files": [file]}
    (begun / "begun.json").write_text("{}")
    (begun / "previous.json").write_text(json.dumps({"run_id": RUN, "address": str(out)}))

    def wrong(**changed):
        (out / "manifest.json").write_text(json.dumps(manifest | changed))
        return "; ".join(lineage.wrong())

    assert wrong() == ""
    manifest.pop("previous")
    assert wrong().endswith("begins a lineage")
    manifest["previous"] = {}
    assert wrong(files=[file | {"bytes": 5}]).endswith("part-00000.parquet is not whole")
    lineage.known.add("another")
    assert wrong(run_id="another").endswith(f"continues {out}: gone")
    (begun / "previous.json").unlink()
    assert wrong().endswith("does not say what it continues")
    lineage.judge("run", ["run"], 78, "error: that is not published any more")
    lineage.judge("run", ["run"], 65, "error: odd")
    assert len(lineage.problems) == 2
