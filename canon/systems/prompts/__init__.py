"""Prompts: a pre-trained network answers in its own words."""
