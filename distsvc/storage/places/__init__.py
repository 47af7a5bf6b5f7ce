"""Folders and buckets: files, conditional writes, leases, retries."""
