"""The contents of a run directory: checkpoints, and the records that other tools read."""
