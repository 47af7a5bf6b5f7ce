"""The command ``distsvc``, which is ``python -m distsvc``, too."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback before `stoppable` listens

from distsvc.cli.ending import stoppable
from distsvc.run.work.workers.lean import lean


def main() -> None:
    """Run the command line so that signals end it, from the first import on."""
    lean()
    stoppable(_command)


def _command() -> None:
    from distsvc.cli.main import main

    main(prog_name="distsvc")


if __name__ == "__main__":
    main()
