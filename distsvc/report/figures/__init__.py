"""The figures of the page, as SVG."""
