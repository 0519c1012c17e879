"""Photos as arrays: find, read, crop, view and augment them."""
