"""One file per system, by chapter."""
