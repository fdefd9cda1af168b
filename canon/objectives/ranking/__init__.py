"""Losses of scores of the documents of queries: pointwise, pairwise and listwise. Importing this imports no torch."""
