"""The captioner's network: encoders, attention, cells, decoder."""
