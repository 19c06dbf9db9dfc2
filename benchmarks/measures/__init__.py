"""The measures, one module for what belongs together; each function takes a `Bench`."""
