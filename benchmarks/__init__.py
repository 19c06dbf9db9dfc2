"""What this package costs beside its peers: `python -m benchmarks`, or `make bench`."""
