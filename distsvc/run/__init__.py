"""The job, from a table to a published run; `distsvc.run.job` has its steps in order."""
