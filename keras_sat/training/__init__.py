"""A whole training: photos, callbacks, devices, and the folder that it is kept in."""
