"""Keys by their names: those of the configuration, with the words that they take."""

from distsvc.job.config import MODEL_SECTIONS, Job
from distsvc.job.file import keys_like, keys_named, known_keys, parse_job


def test_every_key_is_known():
    sections = {
        section for section in Job.model_fields if section not in ("model", "columns", "names")
    }
    fields = {section: Job.model_fields[section].annotation.model_fields for section in sections}
    keys = {f"{section}.{key}" for section, of in fields.items() for key in of}
    keys |= {f"model.{key}" for model in MODEL_SECTIONS.values() for key in model.model_fields}
    assert set(known_keys()) == keys


def test_words_are_those_that_a_job_takes():
    words = known_keys()["preprocess.scale"]
    given = {"input": {"path": "a"}, "output": {"path": "b"}}
    for word in words:
        job = parse_job(given | {"preprocess": {"scale": word}})
        assert job.preprocess.scale == word
    assert len(words) == 6
    assert known_keys()["model.algorithm"] == tuple(MODEL_SECTIONS)
    assert set(known_keys()["model.effort"]) == {"fast", "default", "thorough"}
    assert known_keys()["model.seed"] == ()


def test_an_option_is_a_key_by_its_name():
    assert keys_named("--n-clusters") == ["model.n_clusters"]
    assert keys_named("--model.seed") == ["model.seed"]
    assert keys_named("path") == ["input.path", "output.path"]
    assert keys_named("--gama") == []
    assert keys_like("--gama") == ["model.gamma"]
    assert keys_like("--zzz") == []
