"""The command line: its options, its commands, and the demo."""
