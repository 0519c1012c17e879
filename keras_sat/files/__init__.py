"""What lies on the disk: saved captioners, checkpoints, and the bundled captioners."""
