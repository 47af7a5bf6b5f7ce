"""The twists of forty nights of a shop, in one process and without the calm nights."""

import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from tests.jobs.shop_nights import Nights
from tests.small_runs import forget

pytestmark = pytest.mark.usefixtures("quick_page")


def test_every_exit_code_and_line_is_as_documented(tmp_path, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)

    def call(arguments):
        forget()
        done = CliRunner().invoke(main, arguments)
        return done.exit_code, done.output

    shop = Nights(tmp_path, call, short=True)
    shop.all()
    assert shop.commands > 35
