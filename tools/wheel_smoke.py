# SPDX-License-Identifier: BSD-3-Clause
"""Tests an installed wheel in about two seconds; needs no test package.

Run it with the interpreter that the wheel is installed for, outside the source tree.
"""

from __future__ import annotations

import io
import platform
import threading
from pathlib import Path

import numpy as np

import cograd as torch
import cograd.nn.functional as F
from cograd import func, nn
from cograd.autograd import gradcheck
from cograd.utils.data import DataLoader, TensorDataset


def numbers() -> None:
    """Checks products, a convolution, a transform, a solve and a sort."""
    a, b = np.random.default_rng(0).standard_normal((2, 9, 9))
    ta, tb = torch.tensor(a), torch.from_numpy(b)
    np.testing.assert_allclose((ta @ tb).numpy(), a @ b, atol=1e-12)
    np.testing.assert_allclose(torch.linalg.solve(ta, tb).numpy(), np.linalg.solve(a, b), rtol=1e-8)
    np.testing.assert_allclose(torch.fft.fft(ta).numpy(), np.fft.fft(a), atol=1e-12)
    np.testing.assert_array_equal(ta.sort(dim=1).values.numpy(), np.sort(a, axis=1))
    np.testing.assert_allclose(ta.half().exp().float().numpy(), np.exp(a), rtol=4e-3)
    image, kernel = torch.rand(2, 3, 8, 8), torch.rand(4, 3, 3, 3)
    unfolded = kernel.reshape(4, -1) @ F.unfold(image, 3)
    torch.testing.assert_close(F.conv2d(image, kernel).flatten(2), unfolded)


def gradients() -> None:
    """Checks first and second derivatives, transforms, and an exception raised in a transform."""
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda t: F.layer_norm(t, (4,)).softmax(-1).logsumexp(0), (x,))
    each = func.vmap(func.grad(lambda t: (t**3).sum()))(x.detach())
    torch.testing.assert_close(each, 3 * x.detach() ** 2)
    refused = ""
    try:
        x @ x
    except RuntimeError as error:
        refused = str(error)
    assert "cannot be multiplied" in refused, refused


def training() -> None:
    """Trains a small network, saves it, and checks that it computes the same when loaded."""
    torch.manual_seed(0)
    x = torch.randn(64, 5)
    y = x.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    first = F.mse_loss(model(x), y).item()
    for _ in range(10):
        for part, target in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
            optimizer.zero_grad()
            F.mse_loss(model(part), target).backward()
            optimizer.step()
    assert F.mse_loss(model(x), y).item() < 0.5 * first
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
    other.load_state_dict(torch.load(file))
    assert torch.equal(other(x), model(x))


def threads() -> None:
    """Runs four threads with a graph each."""
    wrong: list[object] = []

    def work() -> None:
        w = torch.ones(200, 200, requires_grad=True)
        (w @ w).sum().backward()
        if w.grad is None or not torch.equal(w.grad, torch.full((200, 200), 400.0)):
            wrong.append(w.grad)

    running = [threading.Thread(target=work) for _ in range(4)]
    for t in running:
        t.start()
    for t in running:
        t.join()
    assert not wrong


def main() -> None:
    """Runs all checks and prints what was tested."""
    package = Path(torch.__file__).parent
    assert "site-packages" in package.parts, f"{package} is not an installed cograd"
    for check in (numbers, gradients, training, threads):
        check()
    print(
        f"cograd {torch.__version__}, Python {platform.python_version()}, {platform.machine()}: ok"
    )


if __name__ == "__main__":
    main()
