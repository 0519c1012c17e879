"""The command line: flags, commands, messages and the demo."""
