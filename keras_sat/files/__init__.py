"""Files on disk: saved captioners, checkpoints, and the bundled captioners."""
