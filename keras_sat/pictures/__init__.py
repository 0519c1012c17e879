"""Show where a captioner looked, in plots, GIFs and HTML pages, and plot training
curves.
"""
