"""What one update does: the loss, its terms, rewards, the optimizer, `train_step`."""
