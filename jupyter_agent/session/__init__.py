"""A conversation in a kernel, and everything that a turn of it needs."""
