"""Score captions, and measure whether attention is on what the words name."""
