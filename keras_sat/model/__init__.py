"""The captioner's network: encoders, attention, decoder, and the loss that it is trained with."""
