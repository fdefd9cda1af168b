"""Plain networks: ResNet's convolutions without its shortcuts, the other half of every comparison in that paper.

He, Zhang, Ren and Sun 2016 (arXiv:1512.03385), section 3.3, "plain network", and figure 4 left.
Deviations: as canon/systems/vision/resnet.py.
"""

from __future__ import annotations

from dataclasses import asdict

from canon.config import settings
from canon.systems.vision import resnet


@settings
class Config(resnet.ResidualConfig):
    pass


class Plain(resnet.ResNet):
    """ResNet with shortcut = "none"."""

    def __init__(self, config: Config) -> None:
        super().__init__(resnet.Config(**asdict(config), shortcut="none"))
