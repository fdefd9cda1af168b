"""stub"""
from __future__ import annotations
BUILTIN = ("digits", "iris", "wine", "breast-cancer", "diabetes", "python-docs", "python-source")
