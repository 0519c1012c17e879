"""Fast versions ("twins") of plain code, with the same values and gradients; `install` enables them."""
