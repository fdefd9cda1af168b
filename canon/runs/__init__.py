"""What lies in a run directory: checkpoints, and the records that other tools read."""
