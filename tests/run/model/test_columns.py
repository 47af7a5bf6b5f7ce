"""The columns of a table to predict are compared with a model's, whatever its id looks like."""

from distsvc.run.model.files import ModelFile, ModelInput, known_features
from distsvc.run.work.progress import Progress


def test_an_id_that_looks_like_numbers_is_no_damaged_feature(tmp_path):
    (tmp_path / "t.csv").write_text("code,x\n12,1\n13,2\n14b,3\n")
    used = ModelInput(id="code", label=None, where=None)
    model = ModelFile.model_construct(chosen_columns=False, features=["x"], input=used)
    known_features(model, str(tmp_path / "t.csv"), tmp_path / "staging", Progress(quiet=True))
