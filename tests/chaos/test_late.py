"""Workers that wake up after the job was done again change nothing of it."""

import pytest
from chaos.late import SECOND, late_worker

from tests.small_runs import MODELS


@pytest.mark.parametrize("number", range(len(SECOND)))
def test_a_worker_that_wakes_up_late_changes_nothing(number):
    found = late_worker(number * len(MODELS) + list(MODELS).index("sampled"))
    assert found["problems"] == []
    assert found["moment"]
