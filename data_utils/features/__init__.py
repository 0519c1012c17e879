"""The features of many photos, built once and read from the disk."""
