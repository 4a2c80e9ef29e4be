# SPDX-License-Identifier: BSD-3-Clause
"""Calls of C++ ops: gradients for all kinds of parameters, results, hooks."""

import shutil
import threading
from pathlib import Path

import pytest
from conftest import leaf, ones

import cograd as torch
from cograd.utils import cpp_extension

CXX = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
pytestmark = pytest.mark.skipif(CXX is None, reason="there is no C++ compiler")
SOURCE = Path(__file__).parents[1] / "extensions" / "calls.cpp"


@pytest.fixture(scope="module")
def ops():
    return cpp_extension.load("t_calls", SOURCE)


# ---------------------------------------------------------------------------- gradients


def test_function_with_a_written_parameter_keeps_its_gradient(ops):
    x = leaf([1.0, 2.0, 3.0])
    y = ops.doubled(x)
    assert y.tolist() == [2.0, 4.0, 6.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_function_that_writes_its_parameter_keeps_its_gradient(ops):
    x = leaf([1.0, 2.0])
    h = x * 5
    y = ops.double_(h)
    assert y is h
    assert h.tolist() == [10.0, 20.0]
    h.sum().backward()
    assert x.grad.tolist() == [10.0] * 2


def test_optional_list_of_a_function_has_gradients(ops):
    x, a, b = leaf([1.0]), leaf([10.0]), leaf([100.0])
    y = ops.maybe_list(x, [a, b])
    assert y.tolist() == [321.0]
    y.backward()
    assert [t.grad.tolist() for t in (x, a, b)] == [[1.0], [2.0], [3.0]]
    y = ops.maybe_list(ones(1), [a])  # only the list requires grad
    y.backward()
    assert a.grad.tolist() == [4.0]
    x.grad = None
    ops.maybe_list(x).backward()
    assert x.grad.tolist() == [1.0]


def test_list_of_optionals_of_a_function_has_gradients(ops):
    x, y = leaf([1.0]), leaf([10.0])
    out = ops.list_of_maybe(x, y)
    assert out.tolist() == [32.0]
    out.backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([2.0], [3.0])


def test_composite_inplace_op_keeps_its_gradient(ops):
    x = leaf([1.0, 2.0])
    h = x * 2
    version = h._version
    ops.triple_(h)
    assert h._version > version
    assert h.tolist() == [6.0, 12.0]
    h.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        ops.triple_(x)
    assert x.tolist() == [1.0, 2.0]


# ---------------------------------------------------------------------------- threads


@pytest.mark.keeps_nodes
def test_two_threads_in_the_backward_of_one_node(ops):
    errors = []

    def run(y):
        try:
            y.backward()
        except RuntimeError as e:
            errors.append(str(e))

    for _ in range(100):
        x = leaf([1.0, 1.0])
        y = ops.reads_long(x).sum()
        threads = [threading.Thread(target=run, args=(y,)) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert set(x.grad.tolist()) <= {2.0, 4.0}
    assert not [e for e in errors if "second time" not in e]


def test_error_of_a_worker_keeps_its_text(ops):
    """Errors of different threads are never confused, however many errors each one had."""
    texts = []

    def run():
        for i in range(60):  # this thread's error count starts below and overtakes
            try:
                ops.worker_error(ones(4), min(i, 1))
            except RuntimeError as e:
                texts.append(str(e))

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        thread = threading.Thread(target=run)  # a thread without an error so far
        thread.start()
        thread.join()
    finally:
        torch.set_num_threads(before)
    assert len(texts) == 60, "the second chunk did not run on a worker"
    assert not [t for t in texts if "17, 19" not in t]


# ---------------------------------------------------------------------------- indices, bad input


def test_stored_index_owns_its_tensor(ops):
    x = torch.arange(5.0)
    for _ in range(20):
        assert ops.stored_index(x, torch.tensor([1, 3])).tolist() == [1.0, 3.0]


def test_inplace_op_by_name_needs_a_tensor(ops):
    x = ones(2)
    with pytest.raises(TypeError, match=r"add_"):
        ops.number_as_self(x)
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("how", ["cat", "stack"])
def test_undefined_tensor_in_a_list(ops, how):
    with pytest.raises((TypeError, RuntimeError), match=how):
        ops.joined(ones(2), how)


def test_list_result_by_name(ops):
    x = leaf([1.0, 2.0])
    y = ops.two_by_name(x)
    assert y.tolist() == [4.0, 12.0]
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 10.0]


# ---------------------------------------------------------------------------- hooks


@pytest.mark.parametrize("op", ["hook_of_leaf", "hook_between"])
def test_hook_must_keep_shape_and_dtype(ops, op):
    x = torch.zeros(4, dtype=torch.float64)
    hooked = getattr(ops, op)
    assert hooked(x, [4], torch.float64).tolist() == [1.0] * 4
    with pytest.raises(RuntimeError, match="hook") as info:
        hooked(x, [7, 7], torch.float64)
    assert "[7, 7]" in str(info.value)
    assert "[4]" in str(info.value)
    with pytest.raises(RuntimeError, match="hook") as info:
        hooked(x, [1], torch.float64)
    assert "[1]" in str(info.value)
    with pytest.raises(RuntimeError, match="hook") as info:
        hooked(x, [4], torch.int64)
    assert "int64" in str(info.value)
    assert "float64" in str(info.value)


# ---------------------------------------------------------------------------- parameters, results


def test_negative_number_for_an_unsigned_parameter(ops):
    for op in (ops.is_largest, ops.small):
        with pytest.raises(ValueError, match="-1"):
            op(-1)
    assert ops.is_largest(2**63 - 1) is False
    assert ops.small(2**16 - 1) == 2**16 - 1
    with pytest.raises(ValueError, match="65536"):
        ops.small(2**16)


def test_literal_result(ops):
    assert ops.literal() == "text"


def test_sized_list_in_a_schema(ops):
    x = ones(1)
    assert list(ops.pair_of(x)) == [1, 1]
    assert list(ops.pair_of(x, 3)) == [3, 3]
    assert list(ops.pair_of(x, [3, 4])) == [3, 4]
    for bad in ([1, 2, 3], []):
        with pytest.raises((TypeError, ValueError), match=r"pair_of"):
            ops.pair_of(x, bad)


def test_list_results_of_typed_schemas_are_not_nested(ops):
    x = torch.ones(2, 3)
    assert ops.ints(x) == [2, 6]
    first, second = ops.twice(x)
    assert first.sum().item() == 6 and second.sum().item() == 12


def test_checks_print_tensors_and_their_parts(ops):
    with pytest.raises(RuntimeError, match=r"\[2, 3\] float32 cpu float32\[2, 3\] 2.5"):
        ops.describe(torch.ones(2, 3))


def test_optional_number_is_nullable(ops):
    assert ops.maybe_int(ones(1)) == -1
    assert ops.maybe_int(ones(1), 4) == 4
