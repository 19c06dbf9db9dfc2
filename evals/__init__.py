"""How often this package's answers are right, beside others: `python -m evals`, or `make eval`."""
