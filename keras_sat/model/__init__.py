"""The captioner's network: encoders, attention, decoder and training objective."""
