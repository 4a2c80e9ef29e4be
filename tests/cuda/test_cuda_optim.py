# SPDX-License-Identifier: BSD-3-Clause
"""Steps of optimizers on the fake driver: few launches for many parameters, and the same numbers.

A step over parameters in groups of their own is a launch for each; all of them in one group must
give the same bits.
"""

import fakes
import pytest

why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

PARAMETERS = """
import sys
sys.path.insert(0, "..")
import optim_cases
torch.cuda.set_fallback("error")

def views(device, dtype):
    "Parameters of several sizes and layouts, without elements and as parts of one memory."
    torch.manual_seed(3)
    sizes = [(n % 7 + 1, 5) for n in range(80)] + [(0, 3), (), (1,), (9001,), (3, 4, 5)]
    made = [torch.randn(size).to(device, dtype) for size in sizes]
    made += [torch.randn(6, 8).to(device, dtype)[:, ::2], torch.randn(6, 8).to(device, dtype).T]
    whole = torch.randn(130).to(device, dtype)
    return made + [whole[3:50], whole[50:51], whole[51:].view(79)]

def gradients(views):
    torch.manual_seed(4)
    grads = [torch.randn(v.shape).to(v.device, v.dtype) for v in views]
    grads[-4] = torch.randn(6, 8).to(grads[-4].device, grads[-4].dtype).T  # not as its parameter
    grads[0] = grads[0].sum().expand_as(grads[0])
    return grads

def train(kind, options, device, apart, dtype=torch.float32, steps=2):
    params = [v.requires_grad_() for v in views(device, dtype)]
    groups = [{"params": [p]} for p in params] if apart else params
    optimizer = kind(groups, **options)
    for _ in range(steps):
        for p, g in zip(params, gradients(params)):
            p.grad = g
        optimizer.step()
    state = [v for p in params for v in optimizer.state[p].values() if isinstance(v, torch.Tensor)]
    return [t.detach().cpu() for t in params + state]

def same_bits(a, b):
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and torch.equal(x.isnan(), y.isnan())
        assert torch.equal(x.nan_to_num(), y.nan_to_num())
"""
NAMES = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta"]
NAMES += ["Adamax", "NAdam", "RAdam", "Rprop", "ASGD"]


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_has_the_bits_of_single_steps(name):
    fakes.run(
        PARAMETERS
        + f"""
kind = torch.optim.{name}
for options in optim_cases.OPTIMIZERS["{name}"]:
    together = train(kind, options, "cuda", False)
    same_bits(together, train(kind, options, "cuda", True))
    for x, y in zip(together, train(kind, options, "cpu", False), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)
""",
        timeout=400,
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "complex64"])
def test_other_dtypes(dtype):
    fakes.run(
        PARAMETERS
        + f"""
for dtypes in (torch.{dtype},):
    together = train(torch.optim.Adam, {{}}, "cuda", False, dtypes)
    same_bits(together, train(torch.optim.Adam, {{}}, "cuda", True, dtypes))
"""
    )


def test_launches():
    fakes.run(
        PARAMETERS
        + """
params = [torch.randn(k + 1).cuda().requires_grad_() for k in range(100)]
params += [torch.randn(k + 1).cuda().double().requires_grad_() for k in range(3)]
for name in ("SGD", "Adam", "RMSprop"):
    optimizer = getattr(torch.optim, name)(params, lr=0.1)
    for step in range(2):
        for p in params:
            p.grad = torch.ones_like(p)
        before = fake.fake_cuda_calls(b"cuLaunchKernel")
        versions = [p._version for p in params]
        optimizer.step()
        launches = fake.fake_cuda_calls(b"cuLaunchKernel") - before
        assert step == 0 or launches == 3, launches  # 64 and 36 of float32, 3 of float64
        assert [p._version for p in params] == [v + 1 for v in versions]
"""
    )


@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adamax", "RMSprop", "Adadelta", "Rprop"])
def test_counters_on_the_gpu(name):
    fakes.run(
        PARAMETERS
        + f"""
kind = torch.optim.{name}
for options in optim_cases.OPTIMIZERS["{name}"]:
    options = {{**options, "capturable": True}}
    on_gpu = train(kind, options, "cuda", False, steps=3)
    same_bits(on_gpu, train(kind, options, "cuda", True, steps=3))
    for x, y in zip(on_gpu, train(kind, options, "cpu", False, steps=3), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)

# 3 launches a step, and two that count, for parameters with different counters.
params = [torch.randn(k + 1).cuda().requires_grad_() for k in range(100)]
optimizer = kind(params, lr=0.1, capturable=True)
for step in range(3):
    for p in params[step:]:
        p.grad = torch.ones_like(p)
    for p in params[:step]:
        p.grad = None
    before = fake.fake_cuda_calls(b"cuLaunchKernel") if not {fakes.REAL} else 0
    versions = [optimizer.state[p]["step"]._version for p in params[step:]] if step else []
    optimizer.step()
    if step and not {fakes.REAL}:
        assert fake.fake_cuda_calls(b"cuLaunchKernel") - before == 4
        after = [optimizer.state[p]["step"]._version for p in params[step:]]
        assert after == [v + 1 for v in versions]
assert [optimizer.state[p]["step"].item() for p in params[:4]] == [1, 2, 3, 3]
""",
        timeout=400,
    )


def test_parameters_that_share_memory_keep_their_order():
    fakes.run(
        PARAMETERS
        + """
def run(device, launches=None):
    whole, other = torch.arange(12.).to(device), torch.ones(8).to(device)
    params = [whole[:8].requires_grad_(), whole.detach()[4:].requires_grad_()]
    params.append(other.requires_grad_())
    for p in params[:2]:
        p.grad = torch.ones_like(p)
    other.grad = whole.detach()[:8]  # the values after the first two parts of the step
    optimizer = torch.optim.SGD(params, lr=0.25, momentum=0.5)
    optimizer.step()
    before = launches and launches(b"cuLaunchKernel")
    optimizer.step()
    assert not before or launches(b"cuLaunchKernel") == before + 3
    return whole.detach().cpu(), other.detach().cpu()
for x, y in zip(run("cuda", fake.fake_cuda_calls), run("cpu"), strict=True):
    assert torch.equal(x, y)
"""
    )


def test_parameters_on_several_devices():
    fakes.run(
        PARAMETERS
        + """
def run(devices):
    params = [torch.arange(4.).add(k).to(d).requires_grad_() for k, d in enumerate(devices)]
    optimizer = torch.optim.Adam(params, lr=0.1)
    for _ in range(2):
        for p in params:
            p.grad = p.detach() + 1
        optimizer.step()
    return [p.detach().cpu() for p in params]
for a, b in zip(run(["cuda:0", "cuda:1", "cpu", "cuda:0"]), run(["cpu"] * 4), strict=True):
    torch.testing.assert_close(a, b)
""",
        FAKE_CUDA_DEVICES=2,
    )
