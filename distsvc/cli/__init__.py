"""The command line: a command parses, calls one function, returns an exit code."""
