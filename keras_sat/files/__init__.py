"""What lies on the disk: saved captioners, checkpoints, exports, and the bundled captioners."""
