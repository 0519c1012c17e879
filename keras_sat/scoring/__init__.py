"""How good captions are, and whether attention lies on what they name."""
