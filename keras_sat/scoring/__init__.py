"""How good captions are, and whether attention meets what they name."""
