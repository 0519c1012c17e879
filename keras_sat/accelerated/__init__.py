"""Fast twins of plain code: same values, same gradients. `install` puts them in."""
