"""The harness of all benchmarks: rows, systems, seconds, memory, jobs, tables of results."""
