"""Algorithms: what one must be (`contract`), how one is found (`registry`), and the built-in ones."""
