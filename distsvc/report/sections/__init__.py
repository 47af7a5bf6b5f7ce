"""The sections of the page, each worked out from its part of the report."""
