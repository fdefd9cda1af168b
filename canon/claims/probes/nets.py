"""Claims about layers, losses and optimisers on small sets, with canon's own parts and short loops of training.

Data are scikit-learn's digits and tumours, split again for every seed. Shapes: N examples, C channels, D features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.activations import activation
from canon.nn.initialization import initialize
from canon.nn.pooling import pooling
from canon.objectives import margin
from canon.optim import OPTIMIZERS, create

Values = dict[str, Any]


def depth_statistics(seed: int, form: str, init: str, layers: int, width: int) -> Values:
    """Mean and variance of activations after each of many dense layers without a norm, of standard normal inputs."""
    torch.manual_seed(seed)
    x_ND = torch.randn(512, width)
    function = activation(form)
    rows = []
    with torch.no_grad():
        for _ in range(layers):
            x_ND = function(initialize(nn.Linear(width, width), init)(x_ND))
            rows.append((float(x_ND.mean()), float(x_ND.var())))
    return {
        "largest mean": max(abs(mean) for mean, _ in rows),
        "last variance": rows[-1][1],
        "least variance": min(variance for _, variance in rows),
        "largest variance": max(variance for _, variance in rows),
        "variance": [[layer, variance] for layer, (_, variance) in enumerate(rows, start=1)],
    }


def digits(seed: int, train: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images [N, 1, 8, 8] and labels to learn from, then those to test on."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    image_NCHW = torch.from_numpy(data.images[order].astype(np.float32))[:, None] / 8 - 1
    label_N = torch.from_numpy(data.target[order]).long()
    return image_NCHW[:train], label_N[:train], image_NCHW[train:], label_N[train:]


def pooled_network(seed: int, kind: str, train: int, steps: int) -> Values:
    """Errors of a network of two convolutions with this pooling, learned from a few digits."""
    images, labels, test_images, test_labels = digits(seed, train)
    torch.manual_seed(seed)
    network = nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), pooling(kind, 2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), pooling(kind, 2)),
        *(nn.Flatten(), nn.Linear(256, 10)),
    )
    initialize(network, "he-normal")
    optimizer = create(OPTIMIZERS["adam"](lr=0.002), [{"params": list(network.parameters())}])
    curve = []
    for step in range(1, steps + 1):
        rows = torch.randint(train, (32,))
        optimizer.zero_grad()
        F.cross_entropy(network(images[rows]), labels[rows]).backward()
        optimizer.step()
        if step % max(steps // 10, 1) == 0:
            curve.append([step, _error(network, test_images, test_labels)])
    return {
        "train error": _error(network, images, labels),
        "test error": _error(network, test_images, test_labels),
        "test error by step": curve,
    }


def _error(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    network.eval()
    with torch.no_grad():
        wrong = (network(images).argmax(1) != labels).float().mean()
    network.train()
    return float(wrong)


def effective_rate(seed: int, optimizer: str, lr: float, steps: int) -> Values:
    """The length of a step over that of the gradient, on a network of digits; 1 is that of the first tenth of steps."""
    images, labels, _, _ = digits(seed, 1000)
    torch.manual_seed(seed)
    network = initialize(nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), "he-uniform")
    params = list(network.parameters())
    chosen = create(OPTIMIZERS[optimizer](lr=lr), [{"params": params}])
    rates = []
    for _ in range(steps):
        rows = torch.randint(len(images), (32,))
        chosen.zero_grad()
        # Labels drawn again keep the gradients alive: a loss that has reached 0 would hide what the rate does.
        noisy = torch.where(torch.rand(32) < 0.2, torch.randint(10, (32,)), labels[rows])
        F.cross_entropy(network(images[rows]), noisy).backward()
        before = [param.detach().clone() for param in params]
        gradient = torch.cat([param.grad.flatten() for param in params if param.grad is not None]).norm()
        chosen.step()
        moved = torch.cat([(new - old).flatten() for new, old in zip(params, before, strict=True)]).norm()
        rates.append(float((moved / gradient).detach()))
    tenth = max(steps // 10, 1)
    means = [float(np.median(rates[start : start + tenth])) for start in range(0, steps, tenth)]
    return {
        "rate that is left": means[-1] / means[0],
        "rate": [[(i + 1) * tenth, mean / means[0]] for i, mean in enumerate(means)],
    }


def outliers(seed: int, loss: str, outliers: int, distance: float) -> Values:
    """Accuracy on clean tumours of a linear classifier that also learned from outliers: examples of one class, moved
    away from the other class's side and given its label."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    random = np.random.default_rng(seed)
    order = random.permutation(len(data.target))
    x_ND = (data.data - data.data.mean(0)) / data.data.std(0)
    x_ND, sign_N = x_ND[order], np.where(data.target[order] == 1, 1.0, -1.0)
    train = len(order) // 2
    learn_ND, learn_sign_N = x_ND[:train].copy(), sign_N[:train].copy()
    direction_D = learn_ND[learn_sign_N > 0].mean(0) - learn_ND[learn_sign_N < 0].mean(0)
    chosen = random.choice(train, outliers, replace=False)
    for row in chosen:
        learn_ND[row] += learn_sign_N[row] * distance * direction_D / np.linalg.norm(direction_D)
        learn_sign_N[row] *= -1
    weight_D = _fitted(loss, torch.from_numpy(learn_ND), torch.from_numpy(learn_sign_N))
    score_N = x_ND[train:] @ weight_D[:-1] + weight_D[-1]
    return {"accuracy": float((np.sign(score_N) == sign_N[train:]).mean())}


def _fitted(loss: str, x_ND: Tensor, sign_N: Tensor) -> np.ndarray:
    """The weights, then the bias, of least mean loss + 0.01/2 ‖w‖², by descent with falling steps: hinge has kinks."""
    function = {"hinge": margin.hinge, "logistic": margin.logistic, "exponential": margin.exponential}[loss]
    weight = torch.zeros(x_ND.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.05)
    steps = 600
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(steps):
        optimizer.zero_grad()
        total = function(x_ND @ weight[:-1] + weight[-1], sign_N).mean() + 0.005 * weight[:-1].square().sum()
        total.backward()
        optimizer.step()
        schedule.step()
    return weight.detach().numpy()
