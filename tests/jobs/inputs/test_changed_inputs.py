"""A run over an input that changes while it is read publishes nothing, and names the file."""

import pytest

from tests.jobs.inputs.changed_inputs import CHANGES, FORMATS, MOMENTS, refusal

# Every change with every format, and with every moment.
CASES = [
    (form, change, MOMENTS[(i + k) % len(MOMENTS)])
    for i, form in enumerate(FORMATS)
    for k, change in enumerate(CHANGES)
]


@pytest.mark.parametrize(("form", "change", "moment"), CASES)
def test_a_changed_input_is_refused(form, change, moment, tmp_path):
    said = refusal(tmp_path, form, change, moment)
    assert len(said.splitlines()) == 1
    name, _ = FORMATS[form]
    assert str(tmp_path / name) in said
    assert any(
        word in said for word in ("changed while", "has gone", "was added", "become a folder")
    )
