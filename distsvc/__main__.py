"""The command ``distsvc``, or ``python -m distsvc``."""

import os
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until `stoppable` handles the signal, the process ends without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from distsvc.cli.ending import stoppable
from distsvc.run.work.workers.lean import lean


def main() -> None:
    """Run the command line. A signal ends it cleanly, even while modules are being imported."""
    _open_streams()
    lean()
    stoppable(_command)


def _open_streams() -> None:
    """Open standard streams that are closed on the null device.

    Otherwise the next opened file would become standard output or error, and get our messages.
    """
    for number in 0, 1, 2:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _command() -> None:
    from distsvc.cli.main import main

    main(prog_name="distsvc")


if __name__ == "__main__":
    main()
