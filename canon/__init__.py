"""canon: the classic systems of deep learning, in one fast and verified PyTorch toolkit."""

TYPE_CHECKING = False  # typing itself would take its time to be imported
if TYPE_CHECKING:
    from canon.api import build, create, encode, list_datasets, list_recipes, list_systems, load, search, train
    from canon.errors import CanonError
    from canon.training.run import Run
    from canon.use.model import Model

__version__ = "0.1.0"
__all__ = [
    "CanonError",
    "Model",
    "Run",
    "build",
    "create",
    "encode",
    "list_datasets",
    "list_recipes",
    "list_systems",
    "load",
    "search",
    "train",
]


def __getattr__(name: str) -> object:
    # Looked up when asked for: importing canon imports nothing, so that the command is guarded from its first moment.
    if name == "CanonError":
        from canon.errors import CanonError

        return CanonError
    if name == "Model":
        from canon.use.model import Model

        return Model
    if name == "Run":
        from canon.training.run import Run

        return Run
    if name in __all__:
        from canon import api

        return getattr(api, name)
    raise AttributeError(f"module 'canon' has no attribute {name!r}")
