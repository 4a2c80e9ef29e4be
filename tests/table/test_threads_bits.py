# SPDX-License-Identifier: BSD-3-Clause
"""Results and gradients have the same bits whatever the number of threads: every op of the table.

The samples are enlarged until their loops are divided into several tasks: all dims but those of
size 1 are multiplied by the same factor, so most of them stay valid arguments. The others run as
they are.
"""

import time
import zlib

import pytest
from op_checks import constants_of
from op_items import each_sample
from op_table import (
    F8,
    OPS,
    TABLE,
    call,
    environment,
    has_derivative,
    is_float,
    makers,
    results,
    samples_of,
    tensors_in,
    tree_map,
)

import cograd as torch

THREADS = (1, 2, 3, 7, 16)
# Elements of the largest argument: the last are several times the grain of most loops. A call that
# takes long, or returns much, is not enlarged further.
STEPS = (200, 3_000, 20_000, 150_000)
SECONDS = 0.003
UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


@pytest.fixture(autouse=True)
def keep_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def scaled(record, sample, factor):
    """Returns (args, kwargs) with every dim larger by the factor."""

    def grown(make):
        def made(*shape, **limits):
            return make(*(n * factor if n > 1 else n for n in shape), **limits)

        return made

    seed = zlib.crc32(f"{record['name']}({sample})".encode())
    env = environment() | {name: grown(make) for name, make in makers(seed).items()}
    env["_call"] = lambda *args, **kwargs: (args, kwargs)
    return eval(f"_call({sample.removeprefix('~')})", env)


def factor_for(record, sample, elements):
    """Returns the factor with which the largest argument has about so many elements."""
    tensors = tensors_in(scaled(record, sample, 1))
    largest = max(tensors, key=torch.Tensor.numel, default=None)
    if largest is None or largest.numel() < 2:
        return 1
    dims = sum(n > 1 for n in largest.shape)
    return max(1, int((elements / largest.numel()) ** (1 / dims)))


def values(record, arguments, derivative):
    """Returns all results, and the gradients of those that have one, as bytes."""
    args, kwargs = tree_map(lambda t: t.detach().clone(), arguments)
    constants = constants_of(record, args)
    leaves = [t for t in tensors_in((args, kwargs)) if t.dtype in (F8, torch.float32)]
    leaves = [t.requires_grad_() for t in leaves if id(t) not in constants] if derivative else []
    found = results(call(OPS.function(record), args, kwargs))
    outputs = [t for t in found if t.requires_grad and is_float(t)]
    if leaves and outputs:
        torch.manual_seed(1)
        weights = [torch.randn(t.shape, dtype=t.dtype) for t in outputs]
        grads = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
        found += [g for g in grads if g is not None]
    return [t.detach().resolve_conj().clone().reshape(-1).view(torch.uint8) for t in found]


def attempt(record, sample, derivative, elements):
    """Returns enlarged arguments in float32, and their values on one thread, or None."""
    grown = scaled(record, sample, factor_for(record, sample, elements))
    arguments = tree_map(lambda t: t.float() if t.dtype is F8 else t, grown)
    try:
        return arguments, values(record, arguments, derivative)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return None


def enlarged(record, sample, derivative):
    """Returns the largest arguments that the op accepts and computes in a short time."""
    found = attempt(record, sample, derivative, 1)
    for elements in STEPS:
        start = time.thread_time()
        larger = attempt(record, sample, derivative, elements)
        took = time.thread_time() - start
        if larger is None:
            break
        found = larger
        if took > SECONDS or sum(t.numel() for t in found[1]) > 100 * elements:
            break
    return found


CASES = [pytest.param(r, s) for r in TABLE if r["name"] not in UNSET for s in samples_of(r)[:2]]


@each_sample(CASES)
def test_the_number_of_threads_changes_no_bit(record, sample):
    derivative = record["differentiable"] and has_derivative(sample)
    torch.set_num_threads(1)
    found = enlarged(record, sample, derivative)
    assert found is not None, "the sample does not run in float32"
    arguments, expected = found
    for threads in THREADS[1:]:
        torch.set_num_threads(threads)
        got = values(record, arguments, derivative)
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert torch.equal(a, b), f"{threads} threads: result {i} differs"


DIVIDED = """add exp gelu sum softmax cumsum sort matmul conv2d gather masked_fill
where index_select avg_pool2d""".split()


@pytest.mark.parametrize("name", DIVIDED)
def test_enlarged_samples_are_divided(name):
    record = next(r for r in TABLE if r["name"] == name)
    sample = samples_of(record)[0]
    torch.set_num_threads(2)
    before = torch._C._parallel_loops()
    assert enlarged(record, sample, False) is not None
    assert torch._C._parallel_loops() > before, "no loop was divided among the threads"
