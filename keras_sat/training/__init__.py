"""Training: its phases, photos, callbacks, devices and output folder."""
