"""What only makes the network faster; values and gradients stay the same. Each part is a twin of a plain one."""
