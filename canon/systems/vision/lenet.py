"""LeNet-5: two convolutions with pooling, three dense layers.

LeCun, Bottou, Bengio and Haffner 1998, section II.B: C1 6@5×5, S2 2×2, C3 16@5×5, S4 2×2, C5 120, F6 84, output.
An image is padded to the paper's 32×32 field; at 28×28, grey and ten classes it has 61,706 parameters.
Deviations: mean pooling without trained coefficients; C3 sees all six maps of S2; softmax with cross-entropy in place
of radial basis units; tanh without the paper's scales; activation = "relu", pooling = "max" is the modern variant
(preset relu).
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.activations import activation
from canon.systems.settings import Classes, Shape


@settings
class Config:
    shape: Shape = Field(default=(1, 28, 28), description="channels, height, width; the data decides")
    num_classes: Classes = Field(default=10, description="the data decides")
    activation: str = Field(default="tanh", description="φ, by name (docs/activations.md)")
    pooling: Literal["mean", "max"] = Field(default="mean", description="kind of 2×2 pooling")


class LeNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        channels, height, width = config.shape
        pool = nn.AvgPool2d if config.pooling == "mean" else nn.MaxPool2d
        pad_h, pad_w = (max(0, (32 - side + 1) // 2) for side in (height, width))
        left = [((side + 2 * pad - 4) // 2 - 4) // 2 for side, pad in ((height, pad_h), (width, pad_w))]
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, 5, padding=(pad_h, pad_w)),
            activation(config.activation),
            pool(2),
            nn.Conv2d(6, 16, 5),
            activation(config.activation),
            pool(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(16 * left[0] * left[1], 120),
            activation(config.activation),
            nn.Linear(120, 84),
            activation(config.activation),
            nn.Linear(84, config.num_classes),
        )
        for parameter in self.parameters():
            # Xavier keeps the units of five layers out of saturation.
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, input_BCHW: Tensor) -> Tensor:
        return self.classifier(self.features(input_BCHW))
