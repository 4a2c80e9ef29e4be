# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes that type checkers report: an ignore comment without a mistake is an error, too."""

from __future__ import annotations

import cograd as torch

x = torch.ones(2)
torch.Linaer  # type: ignore[attr-defined]
torch.annotations  # type: ignore[attr-defined]
torch.nn.Linaer  # type: ignore[attr-defined]
torch.nn.functional.rellu  # type: ignore[attr-defined]
torch.autograd.gradd  # type: ignore[attr-defined]
torch.autograd.graph.drew  # type: ignore[attr-defined]
torch.optim.Sgd  # type: ignore[attr-defined]
torch.utils.dataa  # type: ignore[attr-defined]
torch.linalg.svdd  # type: ignore[attr-defined]
torch.return_types.maxx  # type: ignore[attr-defined]
x.untyped_storage()["0"]  # type: ignore[call-overload]
x.reshap(2)  # type: ignore[attr-defined]
x.sum(dimm=0)  # type: ignore[call-arg]
torch.relu("x")  # type: ignore[arg-type]
torch.nn.Linear("2", 3)  # type: ignore[arg-type]
torch.optim.SGD(x, rate=0.1)  # type: ignore[call-arg]
torch.optim.SGD([x], lr="fast")  # type: ignore[arg-type]
torch.optim.SGD(0.1)  # type: ignore[arg-type]
torch.optim.Adam([x], betas=0.9)  # type: ignore[arg-type]
torch.optim.AdamW([x], lr=0.1, weight_decay="0")  # type: ignore[arg-type]
torch.optim.lr_scheduler.StepLR(torch.optim.SGD([x]), "3")  # type: ignore[arg-type]
torch.optim.lr_scheduler.ExponentialLR([x], 0.9)  # type: ignore[arg-type]
torch.autograd.grad(x, 3)  # type: ignore[call-overload]
