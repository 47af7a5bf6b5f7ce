"""Python runs this first where this folder is on PYTHONPATH."""

from chaos.faults import install_from_environment

install_from_environment()
