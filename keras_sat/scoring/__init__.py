"""Score captions, and measure whether attention is on the objects that the words name."""
