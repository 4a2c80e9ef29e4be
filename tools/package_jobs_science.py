# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of packages for equations, distributions, images and attributions: see package_jobs.py."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from package_helpers import data, job, net


@job("torchcde")
def _torchcde() -> Any:
    import torchcde

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = net(3, 6)

        def forward(self, t: Any, z: Any) -> Any:
            return self.f(z).tanh().reshape(*z.shape[:-1], 3, 2)

    times = torch.linspace(0, 1, 8)
    x = torch.stack([times.repeat(4, 1), (times * torch.arange(1.0, 5.0)[:, None]).sin()], -1)
    path = torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(x))
    field = Field()
    z = torchcde.cdeint(path, field, torch.ones(4, 3), path.interval, method="rk4")
    z[:, -1].sum().backward()
    return z[0, -1], field.f[0].weight.grad.abs().sum()


@job("deepxde")
def _deepxde() -> Any:
    os.environ["DDE_BACKEND"] = "pytorch"
    import deepxde as dde

    dde.config.set_random_seed(0)
    domain = dde.geometry.Interval(0, 1.5)

    def pde(x: Any, y: Any) -> Any:
        return -dde.grad.hessian(y, x) - torch.pi**2 * torch.sin(torch.pi * x)

    edge = dde.icbc.DirichletBC(domain, lambda x: 0, lambda _, on: on)
    problem = dde.data.PDE(domain, pde, edge, 16, 2, train_distribution="uniform")
    model = dde.Model(problem, dde.nn.FNN([1, 16, 16, 1], "tanh", "Glorot uniform"))
    model.compile("adam", lr=0.01, verbose=0)
    losses, _ = model.train(iterations=50, display_every=50, verbose=0)
    return torch.tensor(losses.loss_train[-1])


@job("laplace-torch")
def _laplace() -> Any:
    from laplace import Laplace
    from laplace.curvature import GGNInterface

    class Own(GGNInterface):  # type: ignore[misc]
        """Jacobians by torch.func: the default needs a further package."""

    model = net()
    options = {"subset_of_weights": "all", "hessian_structure": "full", "backend": Own}
    la = Laplace(model, "regression", **options)
    la.fit(DataLoader(TensorDataset(*data()), batch_size=16))
    mean, variance = la(data()[0][:2])
    return mean, variance, la.log_marginal_likelihood()


@job("kornia")
def _kornia() -> Any:
    import kornia as K

    x = torch.linspace(0, 1, 3 * 16 * 16).reshape(1, 3, 16, 16).requires_grad_()
    y = K.filters.gaussian_blur2d(K.color.rgb_to_hsv(x.clamp(0.01, 0.99)), (3, 3), (1.0, 1.0))
    z = K.geometry.rotate(y, torch.tensor([30.0]))
    z.sum().backward()
    return z.sum(), x.grad.abs().sum(), K.losses.ssim_loss(x, x.flip(-1), 5)


@job("pytorch-wavelets")
def _wavelets() -> Any:
    from pytorch_wavelets import DTCWTForward, DWTForward, DWTInverse

    x = torch.linspace(-1, 1, 256).sin().reshape(1, 1, 16, 16).requires_grad_()
    low, high = DWTForward(J=2, wave="db3", mode="zero")(x)
    back = DWTInverse(wave="db3", mode="zero")((low, high))
    low.pow(2).sum().backward()
    error = (back - x).abs().max().round(decimals=4)
    sums = low.abs().sum(), high[0].abs().sum(), DTCWTForward(J=2)(x)[1][0].sum()
    return *sums, error, x.grad.sum()


@job("entmax")
def _entmax() -> Any:
    from entmax import entmax15, entmax_bisect, sparsemax

    x = torch.linspace(-2, 2, 6).reshape(2, 3).requires_grad_()
    alpha = torch.tensor(1.3, requires_grad=True)
    y = entmax_bisect(x, alpha)
    (y[:, 1].sum() + entmax15(x)[:, 2].sum() + sparsemax(x)[:, 0].sum()).backward()
    return y, x.grad, alpha.grad


@job("torch-optimizer")
def _torch_optimizer() -> Any:
    import torch_optimizer

    x, y = data()
    losses = []
    for kind in ("Lamb", "AdaBelief", "RAdam", "Yogi", "Shampoo", "DiffGrad"):
        model = net()
        optimizer = getattr(torch_optimizer, kind)(model.parameters(), lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@job("normflows")
def _normflows() -> Any:
    import normflows as nf

    torch.manual_seed(0)
    flows = []
    for _ in range(2):
        params = nf.nets.MLP([1, 8, 2], init_zeros=False)
        flows += [nf.flows.AffineCouplingBlock(params), nf.flows.Permute(2)]
    model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), flows)
    loss = model.forward_kld(torch.linspace(-1, 1, 20).reshape(10, 2))
    loss.backward()
    return loss, model.sample(2)[0]


@job("nflows")
def _nflows() -> Any:
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms.autoregressive import (
        MaskedPiecewiseRationalQuadraticAutoregressiveTransform as Spline,
    )

    torch.manual_seed(0)
    flow = Flow(Spline(2, 8, tails="linear", tail_bound=3.0, num_bins=4), StandardNormal([2]))
    loss = -flow.log_prob(torch.linspace(-1, 1, 20).reshape(10, 2)).mean()
    loss.backward()
    return loss, flow.sample(2)


@job("zuko")
def _zuko() -> Any:
    import zuko

    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 20).reshape(10, 2)
    found = []
    for flow in (zuko.flows.NSF(2, 0, transforms=2, hidden_features=(8,)), zuko.flows.CNF(2, 0)):
        loss = -flow().log_prob(x).mean()
        loss.backward()
        found.append(loss)
    return torch.stack(found)


@job("sbi")
def _sbi() -> Any:
    from sbi.inference import NPE

    torch.manual_seed(0)
    prior = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    theta = prior.sample((64,))
    inference = NPE(prior, density_estimator="maf", show_progress_bars=False)
    inference.append_simulations(theta, theta + 0.1 * torch.randn(64, 2))
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # sbi writes its log into the working directory
        estimator = inference.train(max_num_epochs=3)
        os.chdir(here)
    return estimator.log_prob(theta[None, :4], torch.zeros(4, 2)).detach().flatten()


@job("captum")
def _captum() -> Any:
    from captum.attr import DeepLift, IntegratedGradients, Saliency

    model, x = net(), data()[0][:3]
    return (
        IntegratedGradients(model).attribute(x, target=0, n_steps=8).sum(0),
        Saliency(model).attribute(x, target=0).sum(0),
        DeepLift(model).attribute(x, x * 0, target=0).sum(0),
    )


@job("torchquad")
def _torchquad() -> Any:
    from torchquad import VEGAS, Boole, set_log_level

    set_log_level("ERROR")
    p = torch.tensor(2.0, requires_grad=True)
    area = [[0.0, 1.0], [0.0, 1.0]]
    box = torch.tensor(area)
    y = Boole().integrate(lambda x: (p * x).sin().prod(1), 2, N=625, integration_domain=box)
    y.backward()
    options = {"N": 2000, "integration_domain": area, "seed": 0}
    return y, p.grad, VEGAS().integrate(lambda x: x.prod(1), 2, **options)


@job("tensordict")
def _tensordict() -> Any:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule

    model = TensorDictModule(net(), in_keys=["x"], out_keys=["y"])
    batch = TensorDict({"x": data()[0]}, batch_size=[64])
    rows = torch.stack([model(batch)[:2], model(batch)[2:4]])
    squares = torch.vmap(lambda row: row.apply(torch.square))(batch)
    nets = torch.stack([TensorDict.from_module(net()), TensorDict.from_module(net())])

    def call(parameters: Any, x: Any) -> Any:
        with parameters.to_module(model.module):
            return model.module(x)

    outputs = torch.vmap(call, (0, None))(nets, batch["x"])
    with tempfile.TemporaryDirectory() as folder:
        batch.memmap(folder)
        stored = TensorDict.load_memmap(folder)["x"].abs().sum()
    return rows["y"].flatten(), rows.reshape(-1)["x"].sum(), squares["x"].sum(), outputs, stored
