"""A pipeline: several recalls, a ranker, and steps that order its answers again, saved as one run directory."""
