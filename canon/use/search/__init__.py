"""Vectors of many texts in a folder, and search in them: by vectors, by words, by both."""
