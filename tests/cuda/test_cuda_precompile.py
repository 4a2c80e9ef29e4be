# SPDX-License-Identifier: BSD-3-Clause
"""cuda.precompile: what it compiles, what it leaves alone, what it shows."""

import fakes
import pytest

import cograd as torch

why = fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

MODEL = """
import sys, io
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh()).cuda()
x = torch.rand(5, 3, device="cuda")
"""


def test_a_model_runs_without_a_compiler_afterwards(tmp_path):
    out = fakes.run(
        MODEL
        + """
random = torch.cuda.get_rng_state()
before = [t.clone() for t in model.state_dict().values()]
n = torch.cuda.precompile(model, x)
assert n > 3, n
assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values()))
assert all(p.grad is None for p in model.parameters())
assert torch.equal(torch.cuda.get_rng_state(), random)
assert torch.cuda.precompile(model, x) == 0
print(n)
""",
        COGRAD_KERNEL_CACHE=tmp_path,
    )
    assert len(list(tmp_path.glob("*.cubin"))) >= int(out)
    program = MODEL.replace("torch.rand(5, 3, device=", "torch.full((5, 3), 0.5).to(device=")
    fakes.run(
        program.replace("x = ", "model.train(); x = ")
        + "\nassert torch.cuda.precompile(model, x) == 0",
        COGRAD_KERNEL_CACHE=tmp_path,
        CXX="/bin/false",
    )


def test_lists_of_kernels_and_functions(tmp_path):
    fakes.run(
        """
import contextlib, io
k = torch.cuda.kernel("__global__ void f(float* x) { x[0] = 1; }")
calls = []
def step(x):
    calls.append(x)
    return x.exp()
x = torch.zeros(2).cuda()
shown = io.StringIO()
with contextlib.redirect_stderr(shown):
    assert torch.cuda.precompile([k, step], x, progress=True) == 2
assert "cuda.precompile: " in shown.getvalue() and shown.getvalue().endswith("\\n")
assert len(calls) == 1 and calls[0] is x
with contextlib.redirect_stderr(io.StringIO()) as quiet:
    assert torch.cuda.precompile((k,), progress=None) == 0
    assert torch.cuda.precompile(k, progress=False) == 0
assert quiet.getvalue() == ""
wrong = torch.cuda.kernel("__global__ void g() { missing; }")
raises(RuntimeError, "could not compile g.cu", torch.cuda.precompile, wrong)
raises(TypeError, "expected modules, functions and kernels, got str", torch.cuda.precompile, ["f"])
raises(ValueError, "no parameter, buffer or input of Linear is on a GPU", torch.cuda.precompile,
       torch.nn.Linear(1, 1), torch.ones(1))
""",
        COGRAD_KERNEL_CACHE=tmp_path,
    )


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="there is no cuda device"):
        torch.cuda.precompile(torch.nn.Linear(1, 1), torch.ones(1))
