"""Where a captioner looked: panels, cartoons, pages, and the curves of a training."""
