"""See where a captioner looked, and how each word came about: overlays, players,
traces, votes, the explorer.
"""
