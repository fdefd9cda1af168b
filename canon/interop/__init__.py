"""Other people's checkpoints and formats, both ways, one file per project."""
