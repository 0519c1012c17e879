"""What only makes the network faster; values and gradients stay the same."""
