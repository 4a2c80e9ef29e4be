# SPDX-License-Identifier: BSD-3-Clause
"""Adam for sparse gradients."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._options import check_betas, within
from ._rule import Rule, State, zeros
from ._sparse import adam_step
from .optimizer import Optimizer, ParamsT

__all__ = ["SparseAdam"]


def _first_step(param: Any, group: dict[str, Any]) -> Any:
    return 0


class SparseAdam(Optimizer):
    """Adam for parameters whose gradients are sparse: only elements with a gradient change.

    Each step, at these elements::

        m = m + (1 - beta1) (g - m),  v = v + (1 - beta2) (g^2 - v)
        p -= lr sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps)

    g is the gradient (its negative with ``maximize``). The moments of the other elements do not
    decay. ``nn.Embedding(sparse=True)`` has such a gradient.

    State: step (t), exp_avg (m), exp_avg_sq (v).

    Args:
        params: dense parameters with sparse gradients.
        betas: decay rates of the moments.

    Raises:
        ValueError: an option is out of range, or a parameter is sparse.
        RuntimeError: a gradient is dense, in ``step``.
    """

    _rule = Rule(
        state=(State("step", _first_step), zeros("exp_avg"), zeros("exp_avg_sq")),
        checks={
            "lr": within(lambda lr: lr > 0.0, "Invalid learning rate: {}"),
            "eps": within(lambda eps: eps > 0.0, "Invalid epsilon value: {}"),
            "betas": check_betas,
        },
        sparse=adam_step,
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))
        found = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, param in enumerate(group["params"])
            if param.layout != cograd.strided
        ]
        if found:
            raise ValueError(
                f"Sparse params at indices {found}: SparseAdam requires dense parameter tensors"
            )

    def _update(self, group: dict[str, Any]) -> None:
        """Raises if there are gradients left: they are dense."""
        if any(param.grad is not None for param in group["params"]):
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
