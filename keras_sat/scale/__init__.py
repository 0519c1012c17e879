"""Photos on many machines, with Ray."""
