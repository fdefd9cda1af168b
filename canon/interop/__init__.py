"""Other people's files, both ways, one file per project: `canon.interop.open(path)` recognises them all."""

from canon.interop.formats import FORMATS, find, open, open_for, recognise

__all__ = ["FORMATS", "find", "open", "open_for", "recognise"]
