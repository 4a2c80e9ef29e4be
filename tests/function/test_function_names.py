# SPDX-License-Identifier: BSD-3-Clause
"""Names around Function that programs look up, and Functions with nested arguments."""

import pytest
from conftest import leaf, same

from cograd.autograd import Function, function


class Doubles(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_names_of_a_function_and_its_node():
    node = Doubles.apply(leaf([1.0])).grad_fn
    assert node.name() == type(node).__name__ == "DoublesBackward"
    assert node._forward_cls is Doubles and Doubles._backward_cls is type(node)
    assert isinstance(node, function.BackwardCFunction)
    assert isinstance(Doubles, function.FunctionMeta) and Doubles.generate_vmap_rule is False
    assert function._SingleLevelFunction is Function


def test_is_setup_context_defined():
    class WithSetup(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    assert function._is_setup_context_defined(WithSetup.setup_context)
    assert not function._is_setup_context_defined(Doubles.setup_context)


def test_nested_io_function():
    class Weighted(function.NestedIOFunction):
        def forward_extended(self, pair, weights):
            a, b = pair
            self.weights = weights
            return {"sum": a * weights["a"] + b * weights["b"], "rest": [a * 1]}

        def backward_extended(self, grads):
            g, rest = grads["sum"], grads["rest"][0]
            return (g * self.weights["a"] + rest, g * self.weights["b"]), {"a": None, "b": None}

    x, y = leaf([1.0]), leaf([2.0])
    out = Weighted()((x, y), {"a": 3.0, "b": 4.0})
    assert same(out["sum"], [11]) and same(out["rest"][0], [1])
    (out["sum"] + out["rest"][0]).sum().backward()
    assert same(x.grad, [4]) and same(y.grad, [4])


def test_nested_io_function_without_methods():
    with pytest.raises(NotImplementedError):
        function.NestedIOFunction()(leaf([1.0]))
