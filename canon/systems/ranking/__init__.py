"""Scorers of documents, and learners of an order."""
