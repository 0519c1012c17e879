"""The feature cache: photos are encoded once, and their features are read from disk."""
