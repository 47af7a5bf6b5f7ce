"""``python -m distsvc`` is the command ``distsvc``."""

from distsvc.cli import main

main()
