"""Folders and buckets: files, conditional writes, leases and retries."""
