"""Search algorithms that generate captions step by step, and the results that they
return.
"""
