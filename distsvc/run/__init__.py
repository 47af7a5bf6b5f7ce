"""The steps of a job, from a table to a published run; `distsvc.run.job` calls them in order."""
