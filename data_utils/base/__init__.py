"""What knows nothing of photos and captions: files, progress, text from elsewhere."""
