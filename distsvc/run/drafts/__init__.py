"""Jobs of tables without a job file, and drafts of job files."""
