"""The command ``distsvc``, which is ``python -m distsvc``, too."""

import atexit
import gc
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback before `stoppable` listens

from distsvc.cli.ending import stoppable

OBJECTS = 50_000
"""New ones before a search for garbage. Imports make a million, and leave none."""


def main() -> None:
    """Run the command line so that signals end it, from the first import on."""
    gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)  # nor are they searched once more at the end
    stoppable(_command)


def _command() -> None:
    from distsvc.cli.main import main

    main(prog_name="distsvc")


if __name__ == "__main__":
    main()
