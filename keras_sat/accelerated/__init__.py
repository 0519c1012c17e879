"""Fast versions ("twins") of plain code, with the same values and gradients; `install` puts them in."""
