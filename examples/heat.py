# SPDX-License-Identifier: BSD-3-Clause
"""Finds past temperatures through the heat equation u_t = u_xx on a ring.

A spectral solver computes later temperatures: each frequency k decays by exp(-k^2 t). The program
finds initial temperatures that explain later, noisy measurements by gradient descent
through the transforms; a penalty on roughness makes the solution unique. The program finds the
best weight of the penalty by the derivative of the reconstruction's error with respect to it, a
tangent in forward mode.
Usage: python examples/heat.py
"""

import math

import cograd as torch
from cograd.func import grad, jvp

N = 128
TIME = 0.01


def evolve(u: torch.Tensor, time: float) -> torch.Tensor:
    """Returns the temperatures ``time`` later."""
    k = torch.fft.rfftfreq(N, d=1 / N, dtype=u.dtype)
    return torch.fft.irfft(torch.exp(-(k**2) * time) * torch.fft.rfft(u), n=N)


def roughness(u: torch.Tensor) -> torch.Tensor:
    """Returns the mean square of the slope."""
    k = torch.fft.rfftfreq(N, d=1 / N, dtype=u.dtype)
    return (torch.fft.irfft(1j * k * torch.fft.rfft(u), n=N) ** 2).mean()


def reconstruct(measured: torch.Tensor, weight: torch.Tensor, steps: int = 200) -> torch.Tensor:
    """Minimises misfit + weight * roughness by descent with momentum, from zero."""
    rate = N / 2 / (1 + weight * (N // 2) ** 2)  # the largest curvature is 1 / rate

    def loss(u: torch.Tensor) -> torch.Tensor:
        return ((evolve(u, TIME) - measured) ** 2).mean() + weight * roughness(u)

    u, velocity = torch.zeros_like(measured), torch.zeros_like(measured)
    for _ in range(steps):
        velocity = 0.9 * velocity - rate * grad(loss)(u)
        u = u + velocity
    return u


def main() -> None:
    """Prints the errors of the measurement, of a first guess, and of the tuned reconstruction."""
    torch.manual_seed(0)
    x = torch.arange(N, dtype=torch.float64) * (2 * math.pi / N)
    truth = torch.exp(4 * (torch.cos(x - 2) - 1)) - 0.7 * torch.exp(9 * (torch.cos(x - 4) - 1))
    measured = evolve(truth, TIME) + 0.02 * torch.randn(N, dtype=torch.float64)

    def error(weight: torch.Tensor) -> torch.Tensor:
        return ((reconstruct(measured, weight.exp()) - truth) ** 2).mean().sqrt()

    print(f"error of the measurement: {((measured - truth) ** 2).mean().sqrt().item():.5f}")
    log_weight = torch.tensor(math.log(1e-5), dtype=torch.float64)
    step, before = 2.0, 0.0
    for _ in range(10):
        value, slope = jvp(error, (log_weight,), (torch.ones_like(log_weight),))
        print(f"weight: {log_weight.exp().item():.1e}, error: {value.item():.5f}")
        downhill = -math.copysign(1.0, slope.item())
        step = step / 2 if downhill * before < 0 else step
        log_weight, before = log_weight + step * downhill, downhill


if __name__ == "__main__":
    main()
