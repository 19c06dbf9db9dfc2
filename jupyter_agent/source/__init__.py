"""Python and IPython source: cells and magics as syntax trees, names, and what statements do."""
