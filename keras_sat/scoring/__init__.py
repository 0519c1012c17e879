"""Score captions, and measure whether attention is on the objects they name."""
