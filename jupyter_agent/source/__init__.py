"""Python and IPython source, read once: cells, magics, names and what statements do."""
