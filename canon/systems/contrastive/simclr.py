"""SimCLR: an encoder and a projection head, taught that two changed views of one image belong together.

Chen, Kornblith, Norouzi and Hinton 2020, A simple framework for contrastive learning of visual representations
(arXiv:2002.05709). Section 2.1: h = f(x) is `encoder`, z = g(h) = W₂ relu(W₁ h) is `projection`; equation 1 is
`nt_xent` in canon/objectives/contrastive.py; the views are made and compared in canon/tasks/contrastive.py.
The encoder is any system of the registry that classifies images, without its last linear layer. Its tensors keep
their names after "encoder.", so that `train.init` starts that system from a SimCLR run with only its head new.
Deviations: Adam or SGD in place of LARS; colour changes in one order (canon/data/batching/augment.py).
Shapes: B images, C channels, H height, W width, F features, D projected features.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from canon import registry
from canon.config import settings
from canon.data.encodings.pixels import PIXELS
from canon.errors import CanonError
from canon.systems.settings import Natural, Positive, Shape


@settings
class Config:
    shape: Shape = Field(default=(3, 224, 224), description="channels, height, width; the data decides")
    encoder: str = Field(default="resnet:50", description="f: a system that classifies images, without its last layer")
    hidden: Natural = Field(default=0, description="width of the projection's hidden layer; 0: as many as features")
    dim: Positive = Field(default=128, description="length of z")
    augment: tuple[str, ...] = Field(
        default=("resized-crop", "flip", "color:1", "grey", "blur"),
        description="changes that make the two views, in this order (docs/data.md)",
    )


class SimCLR(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.encoder, features = headless(config.encoder, config.shape)
        hidden = config.hidden or features
        self.projection = nn.Sequential(
            nn.Linear(features, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, config.dim, bias=False)
        )

    def forward(self, input_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """What the encoder sees in the images, h [B, F], and what the loss compares, z [B, D]."""
        features_BF = self.encoder(input_BCHW)
        return features_BF, self.projection(features_BF)


def headless(name: str, shape: Shape) -> tuple[nn.Module, int]:
    """A classifier of images without its last linear layer, and how many features that layer took."""
    system, preset = registry.find(name)
    if system.loop != "gradient" or system.task != "classification" or PIXELS.name not in system.encodings:
        raise CanonError(f"system.encoder must be a network that classifies images, as resnet:18; {name} is not one.")
    network: nn.Module = system.load()[1](system.configure(preset, {"shape": list(shape)}))
    layers = list(network.named_modules())
    path, last = layers[-1]
    if not isinstance(last, nn.Linear):
        raise CanonError(f"system.encoder must end in a linear layer, which is left out; {name} ends in another.")
    parent, _, attribute = path.rpartition(".")
    setattr(network.get_submodule(parent), attribute, nn.Identity())
    return network, last.in_features
