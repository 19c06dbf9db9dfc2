"""Cassettes: recorded turns of a notebook, and the turns replayed from them."""
