"""Training: photos, callbacks, devices, and the output folder."""
