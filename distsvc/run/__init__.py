"""The job, from an open table to what is published; `distsvc.run.job` tells it top to bottom."""
