"""The command ``distsvc``, which is ``python -m distsvc``, too."""

from distsvc.ending import stoppable


def main() -> None:
    """Run the command line so that signals end it, from the first import on."""
    stoppable(_command)


def _command() -> None:
    from distsvc.cli import main

    main(prog_name="distsvc")


if __name__ == "__main__":
    main()
