"""The modes assign and auto, with the model of another output or of the same one."""

import json
import re
from importlib import import_module

import numpy as np
import pytest
import zarr

from distsvc.errors import InputNotFoundError
from distsvc.run import job as jobs
from distsvc.run.job import run_job
from distsvc.run.work.phases import Phase
from distsvc.storage.publishing.publication import Output, collect
from tests.jobs.shop import FIRST, SECOND, THIRD, invoked, rows
from tests.published_files import labels_folder, labels_of, published_file
from tests.small_runs import FORMS, digests, forget, small_job, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")


BOTH_FORMATS = "centres"
"""The form whose labels are also written as Zarr; formats do not depend on the model."""


@pytest.fixture(scope="module", params=FORMS)
def learned(request, tmp_path_factory):
    """A table, and runs over it that learned their models, with an output of each format."""
    folder = tmp_path_factory.mktemp("learned")
    table = write_table(folder / "t.parquet", three_clusters(700), event=np.arange(700) + 5)
    given = {"input": {"id": "event"}}
    outs = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("distsvc.run.reporting.files"), "page_of", lambda _: "a page")
        for form in ("parquet", "zarr") if request.param == BOTH_FORMATS else ("parquet",):
            outs[form] = folder / form
            output = {"path": str(outs[form]), "format": form}
            run_job(small_job(table, FORMS[request.param], output=output, **given))
    return request.param, table, outs


@pytest.mark.parametrize("mode", ["assign", "auto", "refit"])
def test_settings_that_the_previous_model_replaces_are_a_warning(tmp_path, mode):
    table = write_table(tmp_path / "t.parquet", three_clusters(300))
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    preprocess = {"missing": "drop", "missing_values": [-9.0]}
    run_job(small_job(table, FORMS["centres"], output={"path": first}, preprocess=preprocess))
    content = {"output": {"path": second}, "continuity": {"previous": first}}
    preprocess = {"missing": "drop", "missing_values": [-99.0]}
    model = FORMS["centres"] | {"mode": mode}
    warnings = run_job(small_job(table, model, preprocess=preprocess, **content)).warnings
    found = [text for text in warnings if " is ignored: " in text]
    assert len(found) == (mode != "refit")
    if found:
        assert found[0].startswith("preprocess.missing_values = [-99.0] is ignored: the model of")
        assert "was fitted with [-9.0]; to" in found[0]


def test_a_model_that_labels_again_gives_the_same_bytes(learned, tmp_path):
    name, table, outs = learned
    for form, whole in outs.items():
        out = tmp_path / form
        content = {"input": {"id": "event"}, "continuity": {"previous": str(outs["parquet"])}}
        content["output"] = {"path": str(out), "format": form}
        job = small_job(table, FORMS[name] | {"mode": "assign"}, **content)
        forget()
        report = run_job(job)
        assert digests(labels_folder(out)) == digests(labels_folder(whole))
        for file in ("model.json", "arrays.npz"):
            pair = [published_file(one, file).read_bytes() for one in (out, outs["parquet"])]
            assert pair[0] == pair[1], file
        before = json.loads((outs["parquet"] / "manifest.json").read_text())
        assert report.model.fitted["learned_by"] == before["run_id"]
        assert report.lineage.mode == "assign"
        assert {story.event for story in report.lineage.clusters} == {"survived"}
        assert (report.lineage.moved, report.lineage.rows) == (None, 700)
        assert {column.index for column in report.drift.columns} == {0.0}
        assert report.drift.score == 0.0
        assert report.drift.outlier_share_before == report.drift.outlier_share_after
        if form == "zarr":
            label = zarr.open_array(str(labels_folder(out) / "label"))[:]
            np.testing.assert_array_equal(label, labels_of(outs["parquet"]))


AUTO = {"algorithm": "bico", "n_clusters": 3, "mode": "auto"}


def test_auto_labels_with_the_previous_model_until_the_table_drifts(shop):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 200, 100, seed=1)[0])
    X, y = rows(300, 200, 100, seed=2, shift=1.5)
    shop.table(THIRD, X)
    shop.run(FIRST, model=AUTO)
    report = shop.run(SECOND, model=AUTO)
    assert report.lineage.mode == "assign"
    first = shop.manifest(FIRST)["run_id"]
    assert report.model.fitted == {"learned_by": first, "n_clusters": 3}
    report = shop.run(THIRD, model=AUTO)
    assert report.lineage.mode == "refit"
    assert [text.split(":")[0] for text in report.lineage.because] == ["max_drift"]
    assert re.search(
        r"[(].* % in the earlier run[)], at most 0.25 expected", report.lineage.because[0]
    )
    assert "learned_by" not in report.model.fitted
    assert shop.ids(THIRD, y) == {0: 0, 1: 1, 2: 2}
    assert not (shop.out(THIRD) / "labels" / "assign").exists()
    assert shop.said(THIRD, "model.json")["chosen_columns"] is False, "predict names other columns"


def published_bytes(out):
    """Return the bytes of a run's published files, except its page and report."""
    names = ("lineage.json", "drift.json", "model.json", "arrays.npz")
    return [published_file(out, name).read_bytes() for name in names], digests(labels_folder(out))


@pytest.mark.parametrize("moment", ["assign/00001", "clustering", "match", "label/00001"])
def test_a_killed_run_in_mode_auto_resumes_to_the_same_bytes(shop, moment, monkeypatch):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 200, 100, seed=2, shift=1.5)[0])
    shop.run(FIRST, model=AUTO)
    undisturbed = {"path": f"{shop.folder}/other"}
    shop.run(SECOND, model=AUTO, output=undisturbed)
    do, cluster = Phase.do, jobs.cluster_table

    def stopped(self, run, number):
        if self.result(number) == moment:
            raise KeyboardInterrupt
        return do(self, run, number)

    def not_begun(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(Phase, "do", stopped)
        if moment == "clustering":
            patch.setattr(jobs, "cluster_table", not_begun)
        if moment == "match":
            patch.setattr(import_module("distsvc.run.fitting"), "ids_of", not_begun)
        shop.run(SECOND, model=AUTO)
    assert not (shop.out(SECOND) / "manifest.json").exists()
    assert len(Output(shop.out(SECOND)).kept_works()) == 1
    assert jobs.cluster_table is cluster
    report = shop.run(SECOND, model=AUTO)
    assert report.lineage.because
    assert published_bytes(shop.out(SECOND)) == published_bytes(shop.folder / "other")
    assert collect(shop.out(SECOND)) == []


def test_assign_without_a_model_names_the_paths(shop):
    shop.table(FIRST, rows(300, 200, 100)[0])
    model = {"algorithm": "bico", "n_clusters": 3, "mode": "assign"}
    with pytest.raises(InputNotFoundError, match=r"no run is published at .* and 30 more; model"):
        shop.run(FIRST, model=model)
    other = {"previous": str(shop.folder / "nowhere")}
    with pytest.raises(InputNotFoundError, match=r"published at [^ ]*nowhere; model.mode = "):
        shop.run(FIRST, model=model, continuity=other)


@pytest.mark.parametrize("mode", ["refit", "assign", "auto"])
def test_an_output_that_continues_itself(shop, mode, monkeypatch):
    given = {"output": {"path": f"{shop.folder}/out/now"}}
    given["continuity"] = {"previous": f"{shop.folder}/out/now"}
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.run(FIRST, **given)
    first = shop.manifest("now")["run_id"]
    X, y = rows(100, 300, 200, seed=1)
    shop.table(SECOND, X)
    given["model"] = {"algorithm": "bico", "n_clusters": 3, "mode": mode}
    # (the mode is a part of the job, so the first night's is another job)
    result = invoked(shop, SECOND, "--overwrite", monkeypatch=monkeypatch, **given)
    assert result.exit_code == 0, result.output
    assert shop.ids("now", y) == {0: 0, 1: 1, 2: 2}
    assert shop.manifest("now")["previous"]["run_id"] == first
    before = (shop.out("now") / "manifest.json").read_bytes()
    for options in ((), ("--overwrite",)):
        result = invoked(shop, SECOND, *options, monkeypatch=monkeypatch, **given)
        assert result.exit_code == 0, result.output
        assert (shop.out("now") / "manifest.json").read_bytes() == before, "it was published"
    shop.table(SECOND, X[:500])
    result = invoked(shop, SECOND, monkeypatch=monkeypatch, **given)
    assert result.exit_code == 78
    assert "published from an input that has changed since; give --overwrite" in result.output
