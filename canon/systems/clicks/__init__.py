"""Predicting clicks from fields."""
