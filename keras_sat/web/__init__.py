"""The captioner in a browser: a folder for any static host, and a server for this computer."""
