"""canon: the classic systems of deep learning, in one fast and verified PyTorch toolkit."""

from canon.errors import CanonError

__version__ = "0.1.0"
__all__ = ["CanonError", "create", "datasets", "load", "recipes", "systems", "train"]


def __getattr__(name: str) -> object:
    # Looked up when asked for: importing canon imports neither torch nor the readers.
    if name in __all__:
        from canon import api

        return getattr(api, name)
    raise AttributeError(f"module 'canon' has no attribute {name!r}")
