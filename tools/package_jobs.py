#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a small job of each installed package that is written for torch, and prints its numbers.

    python -m cograd run tools/package_jobs.py [NAME ...]   # on cograd
    python tools/package_jobs.py [NAME ...]                 # on torch

The lines of both runs can be compared. A package that is not installed is left out.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import tempfile
import types
import warnings
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import package_jobs_science  # noqa: F401  its jobs enter the table
from package_helpers import JOBS, data, job, net

MODULES = {"laplace-torch": "laplace", "pyro-ppl": "pyro"}  # others: "_" for "-"


@job("einops")
def _einops() -> Any:
    from einops import rearrange, reduce
    from einops.layers.torch import Rearrange

    x = torch.arange(24.0).reshape(2, 3, 4)
    y = Rearrange("a b c -> b (a c)")(x)
    return reduce(rearrange(x, "a b c -> c b a"), "c b a -> c", "mean"), y.sum(1)


@job("gpytorch")
def _gpytorch() -> Any:
    import gpytorch as gp

    x = torch.linspace(0, 1, 30)
    y = (x * 6).sin()

    class Model(gp.models.ExactGP):  # type: ignore[misc]
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gp.means.ConstantMean()
            self.covar_module = gp.kernels.ScaleKernel(gp.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gp.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gp.likelihoods.GaussianLikelihood()
    model = Model(likelihood)
    mll = gp.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        loss = -mll(model(x), y)
        loss.backward()
        optimizer.step()
    return loss


@job("botorch")
def _botorch() -> Any:
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(0)
    x = torch.linspace(0, 1, 8, dtype=torch.float64).unsqueeze(1)
    model = SingleTaskGP(x, (x * 6).sin())
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    best = LogExpectedImprovement(model, best_f=0.9)
    found, _ = optimize_acqf(best, bounds=bounds, q=1, num_restarts=3, raw_samples=16)
    return found


@job("torchdiffeq")
def _torchdiffeq() -> Any:
    from torchdiffeq import odeint_adjoint

    f = net(2, 2)
    y = odeint_adjoint(lambda t, y: y, torch.ones(2), torch.linspace(0, 1, 3), adjoint_params=())
    z = odeint_adjoint(Field(f), torch.ones(2), torch.linspace(0, 1, 3))
    z.sum().backward()
    return y[-1], z[-1], f[0].weight.grad.sum()


class Field(nn.Module):
    """A vector field that does not depend on time."""

    def __init__(self, f: Any) -> None:
        super().__init__()
        self.f = f

    def forward(self, t: Any, y: Any) -> Any:
        return self.f(y)


@job("pyro-ppl")
def _pyro() -> Any:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoNormal

    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    x = torch.linspace(-1, 1, 20)

    def model(x: Any, y: Any) -> None:
        w = pyro.sample("w", dist.Normal(0.0, 1.0))
        with pyro.plate("data", 20):
            pyro.sample("y", dist.Normal(w * x, 0.1), obs=y)

    svi = SVI(model, AutoNormal(model), pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    return torch.tensor([svi.step(x, 2 * x) for _ in range(30)][-3:])


@job("skorch")
def _skorch() -> Any:
    from skorch import NeuralNetRegressor

    x, y = data()
    model = NeuralNetRegressor(net(), max_epochs=5, lr=0.1, verbose=0, train_split=None)
    model.fit(x, y)
    return torch.tensor(model.history[:, "train_loss"])


def fit(pl: Any) -> Any:
    """Returns the losses of a short fit, and those after loading its checkpoint."""

    class Model(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = net()
            self.losses: list[float] = []

        def training_step(self, batch: Any, index: int) -> Any:
            loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    with tempfile.TemporaryDirectory() as folder:
        model = Model()
        trainer = pl.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(model, DataLoader(TensorDataset(*data()), batch_size=16))
        trainer.save_checkpoint(f"{folder}/a.ckpt")
        again = Model.load_from_checkpoint(f"{folder}/a.ckpt", weights_only=False)
        return torch.tensor(model.losses[-3:]), again.net(data()[0]).sum()


@job("lightning")
def _lightning() -> Any:
    import lightning

    return fit(lightning)


@job("pytorch-lightning")
def _pytorch_lightning() -> Any:
    import pytorch_lightning

    return fit(pytorch_lightning)


def language_model() -> Any:
    """Returns a small GPT-2 with random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=32)
    return GPT2LMHeadModel(config).eval()


@job("transformers")
def _transformers() -> Any:
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

    words = torch.arange(20).reshape(2, 10)
    model = language_model()
    loss = model(words, labels=words).loss
    loss.backward()
    made = model.generate(words[:1, :4], max_new_tokens=4, do_sample=False, pad_token_id=0)
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes = {**small, "intermediate_size": 32, "vocab_size": 50}
    torch.manual_seed(0)
    bert = BertModel(BertConfig(**sizes)).eval()(words).last_hidden_state
    llama = LlamaForCausalLM(LlamaConfig(**sizes))(words, labels=words).loss
    return loss, made, bert.abs().sum(), llama


@job("transformers.Trainer")
def _trainer() -> Any:
    from transformers import Trainer, TrainingArguments

    words = torch.arange(40).reshape(4, 10)
    rows = [{"input_ids": row, "labels": row} for row in words]
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder, max_steps=3, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no"
        )
        result = Trainer(language_model(), options, train_dataset=rows).train()
    return torch.tensor(result.training_loss)


@job("transformers.from_pretrained")
def _from_pretrained() -> Any:
    model = language_model()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder)
    words = torch.arange(10).reshape(1, 10)
    return again(words).logits.abs().sum()


@job("peft")
def _peft() -> Any:
    from peft import LoraConfig, get_peft_model

    words = torch.arange(20).reshape(2, 10)
    config = LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True)
    model = get_peft_model(language_model(), config)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        loss = model(input_ids=words, labels=words).loss
        loss.backward()
        optimizer.step()
    return loss


_MODES = ("bicubic", "bilinear", "box", "hamming", "lanczos", "nearest", "nearest_exact")


class _StandIn(types.ModuleType):
    """A module that timm imports for what this job does not run."""

    __version__ = "0.0"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (nn.Module,), {mode.upper(): mode for mode in _MODES})


@job("timm")
def _timm() -> Any:
    if importlib.util.find_spec("torchvision") is None:
        parts = "ops ops.misc models models.feature_extraction transforms transforms.functional"
        for part in ("", *parts.split(), "datasets", "utils"):
            name = f"torchvision.{part}".rstrip(".")
            made = sys.modules[name] = _StandIn(name)
            above, _, last = name.rpartition(".")
            if above:
                setattr(sys.modules[above], last, made)
    import timm

    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=5).eval()
    vit = timm.create_model("vit_tiny_patch16_224", num_classes=5).eval()
    x = torch.linspace(-1, 1, 3 * 224 * 224).reshape(1, 3, 224, 224)
    return model(x[:, :, :64, :64]).abs().sum(), vit(x).abs().sum()


@job("opacus")
def _opacus() -> Any:
    from opacus import PrivacyEngine

    torch.manual_seed(0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(*data()), batch_size=16)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=0.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss


@job("torchmetrics")
def _torchmetrics() -> Any:
    from torchmetrics import MeanSquaredError
    from torchmetrics.classification import BinaryAUROC, MulticlassF1Score

    x, y = data()
    return (
        MeanSquaredError()(x[:, :1].contiguous(), y),
        BinaryAUROC()(y[:, 0].sigmoid(), (x[:, 0] > 0).int()),
        MulticlassF1Score(num_classes=4)(x, (y[:, 0] > 0).long()),
    )


@job("e3nn")
def _e3nn() -> Any:
    from e3nn import o3

    x = torch.linspace(-1, 1, 15).reshape(5, 3).sin()
    y = o3.spherical_harmonics([0, 1, 2], x, normalize=True)
    torch.manual_seed(0)
    product = o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "2x0e+1x1o")
    out = product(torch.ones(2, 5), torch.ones(2, 4))
    return y.sum(0), out.abs().sum()


@job("torch_geometric")
def _torch_geometric() -> Any:
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool, to_hetero

    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    batch = Batch.from_data_list([Data(torch.eye(4), edges), Data(torch.ones(4, 4), edges)])
    torch.manual_seed(0)
    first, second = GCNConv(4, 8), GATConv(8, 3)
    h = second(first(batch.x, batch.edge_index).relu(), batch.edge_index)
    out = global_mean_pool(h, batch.batch)
    out.sum().backward()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = SAGEConv((-1, -1), 3)

        def forward(self, x: Any, edge_index: Any) -> Any:
            return self.conv(x, edge_index).relu()

    kinds = [("a", "to", "b"), ("b", "to", "a")]
    hetero = to_hetero(Net(), (["a", "b"], kinds))
    parts = hetero({"a": torch.eye(4), "b": torch.ones(4, 2)}, dict.fromkeys(kinds, edges))
    return out.abs().sum(), first.lin.weight.grad.abs().sum(), parts["a"].sum(), parts["b"].sum()


@job("diffusers")
def _diffusers() -> Any:
    from diffusers import DDIMScheduler, UNet2DModel

    torch.manual_seed(0)
    model = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 8),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    scheduler, x = DDIMScheduler(), torch.linspace(-1, 1, 64).reshape(1, 1, 8, 8)
    scheduler.set_timesteps(3)
    with torch.no_grad():
        for t in scheduler.timesteps:
            x = scheduler.step(model(x, t).sample, t, x).prev_sample
    return x.abs().sum()


@job("accelerate")
def _accelerate() -> Any:
    from accelerate import Accelerator

    accelerator, model = Accelerator(cpu=True), net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(*data()), batch_size=16)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
    return loss


@job("torchopt")
def _torchopt() -> Any:
    import torchopt

    x, y = data()
    model = net()
    optimizer = torchopt.MetaAdam(model, lr=0.1)
    for _ in range(3):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.step(loss)
    return loss


@job("pypose")
def _pypose() -> Any:
    import pypose as pp

    x = pp.se3(torch.linspace(-1, 1, 6)).requires_grad_()
    y = (x.Exp() * x.Exp().Inv().Inv()).Log()
    y.tensor().sum().backward()
    return y.tensor(), x.grad


@job("torchdyn")
def _torchdyn() -> Any:
    from torchdyn.core import NeuralODE

    model = NeuralODE(net(2, 2), sensitivity="adjoint", solver="rk4")
    _, y = model(torch.ones(3, 2), torch.linspace(0, 1, 5))
    y.sum().backward()
    return y[-1].sum()


@job("torchsde")
def _torchsde() -> Any:
    import torchsde

    class Motion(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t: Any, y: Any) -> Any:
            return -y

        def g(self, t: Any, y: Any) -> Any:
            return 0.1 * y

    times = torch.linspace(0, 1, 5)
    torch.manual_seed(0)
    area = {"entropy": 1, "levy_area_approximation": "space-time"}
    motion = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(2, 1), **area)
    return torchsde.sdeint(Motion(), torch.ones(2, 1), times, bm=motion, dt=0.1)[-1]


@job("cvxpylayers")
def _cvxpylayers() -> Any:
    import cvxpy as cp
    from cvxpylayers.torch import CvxpyLayer

    x, b = cp.Variable(2), cp.Parameter(2)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - b)), [x >= 0])
    given = torch.tensor([1.0, -1.0], dtype=torch.float64, requires_grad=True)
    (y,) = CvxpyLayer(problem, parameters=[b], variables=[x])(given)
    y.sum().backward()
    return y, given.grad


def numbers(result: Any) -> str:
    """Returns the numbers of tensors with five digits."""
    parts = result if isinstance(result, tuple) else (result,)
    flat = [float(v) for part in parts for v in part.detach().double().flatten()[:6]]
    return " ".join(f"{v:.5g}" for v in flat)


def main() -> int:
    """Runs the jobs whose packages are installed, or those that are named."""
    warnings.simplefilter("ignore")
    failed = 0
    for name in sys.argv[1:] or JOBS:
        package = name.partition(".")[0]
        if importlib.util.find_spec(MODULES.get(package, package.replace("-", "_"))) is None:
            continue
        try:
            said = numbers(JOBS[name]())
        except Exception as error:
            failed += 1
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        print(f"{name} {importlib.metadata.version(package)}: {said}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
