"""canon: the classic systems of deep learning, in one fast and verified PyTorch toolkit."""

__version__ = "0.1.0"
