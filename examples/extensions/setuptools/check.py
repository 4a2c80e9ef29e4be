# SPDX-License-Identifier: BSD-3-Clause
"""Checks the installed package: values, gradients of both orders, errors."""

from rms_norm import rms_norm

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

x = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
w = torch.randn(5, dtype=torch.float64, requires_grad=True)
expected = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w
assert torch.allclose(rms_norm(x, w), expected)
assert gradcheck(rms_norm, (x, w))
assert gradcheck(rms_norm, (x.transpose(0, 2).contiguous().transpose(0, 2), w))
assert gradgradcheck(rms_norm, (x, w))
message = ""
try:
    rms_norm(x, w[:3])
except ValueError as e:
    message = str(e)
assert "rms_norm" in message
print("rms_norm: ok")
