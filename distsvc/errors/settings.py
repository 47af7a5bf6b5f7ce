"""Settings of a job in messages, worded for the command line or for Python."""

from typing import NamedTuple


class Setting(NamedTuple):
    """A key of the job with a value, to be recommended in a message."""

    key: str
    value: str
    other: str = ""  # another value that helps, too

    def __str__(self) -> str:
        """Return the option of the command line."""
        return f"--set {self.key}={self.value}" + (f", or ={self.other}" if self.other else "")

    @property
    def in_python(self) -> str:
        """The argument of `distsvc.run`."""
        other = f', or "{self.other}"' if self.other else ""
        return f'overrides={{"{self.key}": "{self.value}"}}{other}'
