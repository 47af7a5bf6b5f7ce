"""What the documentation needs besides Sphinx: generated pages, formulas, a check of links."""
