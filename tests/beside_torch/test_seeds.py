# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: E501, UP031
# fmt: off
"""Every listing of the five seed documents as a program; only lost indentation is repaired."""

import contextlib
import io
import math
import time

import numpy as np
import pytest
from conftest import arr, same

import cograd as t
import cograd as torch
from cograd import nn
from cograd.autograd import Function, gradcheck

# ---- seeds 000, 003, 004: LinearFunction ---------------------------------------------------------


# Inherit from Function
class LinearFunction000(Function):
    # Note that both forward and backward are @staticmethods
    @staticmethod
    # bias is an optional argument
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    # This function has only a single output, so it gets only one gradient
    @staticmethod
    def backward(ctx, grad_output):
        # This is a pattern that is very convenient - at the top of backward
        # unpack saved_tensors and initialize all gradients w.r.t. inputs to
        # None. Thanks to the fact that additional trailing Nones are
        # ignored, the return statement is simple even when the function has
        # optional inputs.
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        # These needs_input_grad checks are optional and there only to
        # improve efficiency. If you want to make your code simpler, you can
        # skip them. Returning gradients for inputs that don't require it is
        # not an error.
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


# Inherit from Function
class LinearFunction003(Function):
    # Note that both forward and backward are @staticmethods
    @staticmethod
    # bias is an optional argument
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    # This function has only a single output, so it gets only one gradient
    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0).squeeze(0)

        return grad_input, grad_weight, grad_bias


LINEARS = pytest.mark.parametrize(
    "function", [LinearFunction000, LinearFunction003], ids=["seed000", "seed003_004"]
)


def linear_inputs(bias=True, n=5, n_in=4, n_out=3):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in [(n, n_in), (n_out, n_in), (n_out,)]]
    tensors = [torch.tensor(a.tolist(), dtype=torch.double, requires_grad=True) for a in arrays]
    return arrays[: 2 + bias], tensors[: 2 + bias]


@LINEARS
@pytest.mark.parametrize("bias", [True, False])
def test_linear_function_values_and_gradients(function, bias):
    arrays, tensors = linear_inputs(bias)
    linear = function.apply
    y = linear(*tensors)
    expected = arrays[0] @ arrays[1].T + (arrays[2] if bias else 0)
    assert same(y, expected, tol=1e-10)
    g = np.random.default_rng(1).standard_normal(y.shape)
    y.backward(torch.tensor(g.tolist(), dtype=torch.double))
    assert same(tensors[0].grad, g @ arrays[1], tol=1e-10)
    assert same(tensors[1].grad, g.T @ arrays[0], tol=1e-10)
    if bias:
        assert same(tensors[2].grad, g.sum(0), tol=1e-10)


@LINEARS
def test_linear_function_with_bias_given_as_none_and_by_name(function):
    arrays, (x, w) = linear_inputs(bias=False)
    assert same(function.apply(x, w, None), arrays[0] @ arrays[1].T, tol=1e-10)
    _, (x, w, b) = linear_inputs()
    y = function.apply(x, w, bias=b)
    y.sum().backward()
    assert same(b.grad, [5, 5, 5])


@LINEARS
@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_linear_function_with_one_input_frozen(function, frozen):
    _, tensors = linear_inputs()
    tensors[frozen].requires_grad_(False)
    function.apply(*tensors).sum().backward()
    assert [v.grad is None for v in tensors] == [k == frozen for k in range(3)]


@LINEARS
def test_the_documents_gradcheck_listing_prints_true(function, capsys):
    linear = function.apply

    # gradcheck takes a tuple of tensors as input, check if your gradient
    # evaluated with these tensors are close enough to numerical
    # approximations and returns True if they all verify this condition.
    input = (torch.randn(20,20,dtype=torch.double,requires_grad=True), torch.randn(30,20,dtype=torch.double,requires_grad=True))
    test = gradcheck(linear, input, eps=1e-6, atol=1e-4)
    print(test)
    assert capsys.readouterr().out == "True\n"


def test_gradcheck_notices_a_wrong_linear_function():
    class Wrong(LinearFunction000):
        @staticmethod
        def backward(ctx, grad_output):
            grads = LinearFunction000.backward(ctx, grad_output)
            return grads[0], grads[1] * 2, grads[2]

    inputs = (torch.randn(3, 4, dtype=torch.double, requires_grad=True),
              torch.randn(2, 4, dtype=torch.double, requires_grad=True))
    assert gradcheck(Wrong.apply, inputs, raise_exception=False) is False
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0.*input 1"):
        gradcheck(Wrong.apply, inputs)


# ---- seeds 000, 003, 004: MulConstant ------------------------------------------------------------


class MulConstant(Function):
    @staticmethod
    def forward(ctx, tensor, constant):
        # ctx is a context object that can be used to stash information
        # for backward computation
        ctx.constant = constant
        return tensor * constant

    @staticmethod
    def backward(ctx, grad_output):
        # We return as many input gradients as there were arguments.
        # Gradients of non-Tensor arguments to forward must be None.
        return grad_output * ctx.constant, None


@pytest.mark.parametrize("constant", [3, -2.5])
def test_mul_constant(constant):
    x = torch.tensor([1.0, 2.0], dtype=torch.double, requires_grad=True)
    y = MulConstant.apply(x, constant)
    y.sum().backward()
    assert same(y, arr(x) * constant) and same(x.grad, [constant] * 2)


def test_mul_constant_is_differentiable_twice():
    x = torch.tensor(2.0, dtype=torch.double, requires_grad=True)
    y = MulConstant.apply(x * x, 3)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    assert same(g, 12.0) and same(h, 6.0)


# ---- seeds 000, 003, 004: the Linear module ------------------------------------------------------


def make_linear_module(LinearFunction):
    class Linear(nn.Module):
        def __init__(self, input_features, output_features, bias=True):
            super(Linear, self).__init__()  # noqa: UP008 - as in the document
            self.input_features = input_features
            self.output_features = output_features

            # nn.Parameter is a special kind of Tensor, that will get
            # automatically registered as Module's parameter once it's assigned
            # as an attribute. Parameters and buffers need to be registered, or
            # they won't appear in .parameters() (doesn't apply to buffers), and
            # won't be converted when e.g. .cuda() is called. You can use
            # .register_buffer() to register buffers.
            # nn.Parameters require gradients by default.
            self.weight = nn.Parameter(torch.Tensor(output_features, input_features))
            if bias:
                self.bias = nn.Parameter(torch.Tensor(output_features))
            else:
                # You should always register all possible parameters, but the
                # optional ones can be None if you want.
                self.register_parameter('bias', None)

            # Not a very smart way to initialize weights
            self.weight.data.uniform_(-0.1, 0.1)
            if bias is not None:
                self.bias.data.uniform_(-0.1, 0.1)

        def forward(self, input):
            # See the autograd section for explanation of what happens here.
            return LinearFunction.apply(input, self.weight, self.bias)

        def extra_repr(self):
            # (Optional)Set the extra information about this module. You can test
            # it by printing an object of this class.
            return 'in_features={}, out_features={}, bias={}'.format(  # noqa: UP032
                self.in_features, self.out_features, self.bias is not None
            )

    return Linear


@LINEARS
def test_linear_module_runs_and_learns(function):
    Linear = make_linear_module(function)
    module = Linear(4, 3)
    assert [name for name, _ in module.named_parameters()] == ["weight", "bias"]
    assert all(p.requires_grad and p.is_leaf for p in module.parameters())
    assert tuple(module.weight.shape) == (3, 4) and tuple(module.bias.shape) == (3,)
    values = np.concatenate([arr(p).ravel() for p in module.parameters()])
    assert (np.abs(values) <= 0.1).all() and np.unique(values).size == 15

    x = torch.randn(6, 4)
    y = module(x)
    expected = arr(x) @ arr(module.weight).T + arr(module.bias)
    assert np.allclose(arr(y), expected, atol=1e-6)
    y.sum().backward()
    assert np.allclose(arr(module.weight.grad), np.tile(arr(x).sum(0), (3, 1)), atol=1e-5)
    assert np.allclose(arr(module.bias.grad), [6, 6, 6])

    target, first = torch.zeros(6, 3), None
    for _ in range(50):
        module.zero_grad()
        loss = (module(x) - target).pow(2).sum()
        first = loss.item() if first is None else first
        loss.backward()
        with torch.no_grad():
            for p in module.parameters():
                p -= 0.01 * p.grad
    assert loss.item() < first / 2


def test_linear_module_printed_as_written_raises():
    # its extra_repr reads in_features, but __init__ set input_features
    module = make_linear_module(LinearFunction003)(4, 3)
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'in_features'"):
        repr(module)
    with pytest.raises(AttributeError, match="in_features"):
        print(module)


def test_linear_module_prints_once_the_names_are_there():
    module = make_linear_module(LinearFunction000)(4, 3)
    module.in_features, module.out_features = 4, 3
    assert repr(module) == "Linear(in_features=4, out_features=3, bias=True)"


def test_linear_module_without_bias_as_written_raises():
    # the document tests `bias is not None`, which is true of False as well
    with pytest.raises(AttributeError, match="data"):
        make_linear_module(LinearFunction000)(4, 3, bias=False)


def test_linear_module_nests():
    Linear = make_linear_module(LinearFunction000)
    model = nn.Sequential(Linear(4, 5), nn.Sequential(Linear(5, 2)))
    names = [name for name, _ in model.named_parameters()]
    assert names == ["0.weight", "0.bias", "1.0.weight", "1.0.bias"]
    model(torch.randn(3, 4)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


# ---- seed 001: MyExp -----------------------------------------------------------------------------


class MyExp(torch.autograd.Function):
    """ 前向:y = exp(x), 微分:dydx = exp(x) """

    @staticmethod
    def forward(ctx, inputs):
        """ 实现前向传播逻辑 """
        outputs = inputs.exp()
        ctx.save_for_backward(outputs)
        return outputs

    @staticmethod
    def backward(ctx, grad_outputs):
        """ 实现反向传播, grad_outputs为损失对前向传播中输出的梯度,但需要计算的是损失对输入的梯度 """
        outputs, = ctx.saved_tensors
        return grad_outputs * outputs


def test_seed_001_my_exp(capsys):
    inputs = torch.tensor([1.0, 2.0, 3.0], device='cpu', requires_grad=True)
    outputs = MyExp.apply(inputs)
    outputs.backward(torch.ones(outputs.shape))  # torch.ones(outputs.shape)为对自己的梯度
    grad1 = inputs.grad
    inputs.grad = None  # 梯度清零
    print(grad1)
    print("***********测试内置算子的梯度***********")
    outputs = inputs.exp()
    outputs.sum().backward()
    grad2 = inputs.grad
    print(grad2)

    assert np.allclose(arr(grad1), np.exp([1.0, 2.0, 3.0]), rtol=1e-6)
    assert torch.equal(grad1, grad2)
    line = "tensor([ 2.7183,  7.3891, 20.0855])"
    assert capsys.readouterr().out.splitlines() == [
        line, "***********测试内置算子的梯度***********", line,
    ]


# ---- seed 001: LegendrePolynomial3 ---------------------------------------------------------------


class LegendrePolynomial3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs):
        ctx.save_for_backward(inputs)
        return 0.5 * (5 * inputs ** 3 - 3 * inputs)

    @staticmethod
    def backward(ctx, grad_outputs):
        inputs, = ctx.saved_tensors
        return grad_outputs * 1.5 * (5 * inputs ** 2 - 1)


def legendre_program():
    start = time.time()
    dtype = torch.float
    device = torch.device('cpu')
    # device = torch.device('cuda:0') # uncommet this line to run on GPU
    x = torch.linspace(-math.pi, math.pi, 2000, dtype=dtype, device=device)
    y = torch.sin(x)

    a = torch.full((), 0.0, dtype=dtype, device=device, requires_grad=True)
    b = torch.full((), -1.0, dtype=dtype, device=device, requires_grad=True)
    c = torch.full((), 0.0, dtype=dtype, device=device, requires_grad=True)
    d = torch.full((), 0.3, dtype=dtype, device=device, requires_grad=True)

    learning_rate = 5e-6
    P3 = LegendrePolynomial3.apply
    for i in range(2000):
        y_pred = a + b * P3(c + d * x)
        loss = (y_pred - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            a -= a.grad * learning_rate
            b -= b.grad * learning_rate
            c -= c.grad * learning_rate
            d -= d.grad * learning_rate
            a.grad, b.grad, c.grad, d.grad = None, None, None, None
        if i % 100 == 0:
            print("id: %s, loss: %s" % (i, loss.item()))
    print(f"{a.item()} + {b.item()} * P3({c.item()} + {d.item()} * x )")
    print(f" totally costs {time.time() - start} seconds.")
    return [v.item() for v in (a, b, c, d)]


def legendre_in_numpy():
    """Computes the same fit in float64: losses every 100 steps and the four coefficients."""
    x = np.linspace(-np.pi, np.pi, 2000)
    y = np.sin(x)
    a, b, c, d = 0.0, -1.0, 0.0, 0.3
    losses = []
    for i in range(2000):
        u = c + d * x
        p = 0.5 * (5 * u**3 - 3 * u)
        error = a + b * p - y
        if i % 100 == 0:
            losses.append(float((error**2).sum()))
        slope = 2 * error * b * 1.5 * (5 * u**2 - 1)
        steps = [(2 * error).sum(), (2 * error * p).sum(), slope.sum(), (slope * x).sum()]
        a, b, c, d = (v - 5e-6 * s for v, s in zip((a, b, c, d), steps, strict=True))
    return losses, [a, b, c, d]


def test_seed_001_legendre_program():
    captured = io.StringIO()
    with contextlib.redirect_stdout(captured):
        found = legendre_program()
    lines = captured.getvalue().splitlines()
    losses, coefficients = legendre_in_numpy()
    printed = [float(line.split("loss: ")[1]) for line in lines[:20]]
    assert [line.split(",")[0] for line in lines[:20]] == [f"id: {100 * k}" for k in range(20)]
    assert np.allclose(printed, losses, rtol=1e-4)
    assert np.allclose(found, coefficients, rtol=1e-3, atol=1e-6)
    assert np.allclose(found, [0.0, -2.20857, 0.0, 0.255477], atol=2e-3)
    assert " * P3(" in lines[20] and "totally costs" in lines[21] and len(lines) == 22


def test_seed_001_legendre_derivative():
    x = torch.linspace(-1, 1, 9, dtype=torch.double).requires_grad_()
    assert gradcheck(LegendrePolynomial3.apply, (x,))


# ---- seed 002: the instance style ----------------------------------------------------------------


# Inherit from Function
class Linear002(Function):

    # bias is an optional argument
    def forward(self, input, weight, bias=None):
        self.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    # This function has only a single output, so it gets only one gradient
    def backward(self, grad_output):
        # This is a pattern that is very convenient - at the top of backward
        # unpack saved_tensors and initialize all gradients w.r.t. inputs to
        # None. Thanks to the fact that additional trailing Nones are
        # ignored, the return statement is simple even when the function has
        # optional inputs.
        input, weight, bias = self.saved_tensors
        # (the document stops here; the rest is that of seed 000)
        grad_input = grad_weight = grad_bias = None
        if self.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if self.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and self.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


@pytest.mark.beyond_torch
@pytest.mark.parametrize("bias", [True, False])
def test_seed_002_instance_style(bias):
    arrays, tensors = linear_inputs(bias)
    y = Linear002()(*tensors)
    assert same(y, arrays[0] @ arrays[1].T + (arrays[2] if bias else 0), tol=1e-10)
    assert "Linear002" in y.grad_fn.name()
    y.sum().backward()
    assert same(tensors[0].grad, np.tile(arrays[1].sum(0), (5, 1)), tol=1e-10)
    assert same(tensors[1].grad, np.tile(arrays[0].sum(0), (3, 1)), tol=1e-10)
    if bias:
        assert same(tensors[2].grad, [5, 5, 5])


@pytest.mark.beyond_torch
def test_seed_002_gradcheck():
    _, tensors = linear_inputs()
    assert gradcheck(lambda *args: Linear002()(*args), tuple(tensors), eps=1e-6, atol=1e-4)


# ---- seed 004: the blog --------------------------------------------------------------------------


def test_seed_004_call_backward_and_grad_fn_apply():
    arrays, args = linear_inputs()
    # 调用自定义的自动求导函数
    linear = LinearFunction003.apply(*args)  # 前向传播
    g = torch.ones(linear.shape, dtype=torch.double)
    linear.backward(g, retain_graph=True)  # 反向传播
    grads = linear.grad_fn.apply(g)  # 反向传播
    assert isinstance(grads, tuple) and len(grads) == 3
    for grad, tensor in zip(grads, args, strict=True):
        assert same(grad, arr(tensor.grad))
    assert same(args[2].grad, [5, 5, 5])
    assert same(args[0].grad, np.ones((5, 3)) @ arrays[1], tol=1e-10)


@pytest.mark.beyond_torch
def test_seed_004_grad_fn_can_be_called_as_well():
    _, args = linear_inputs()
    linear = LinearFunction003.apply(*args)
    g = torch.ones(linear.shape, dtype=torch.double)
    for direct, applied in zip(linear.grad_fn(g), linear.grad_fn.apply(g), strict=True):
        assert torch.equal(direct, applied)


def test_seed_004_higher_derivative_under_the_name_t():
    x = t.tensor(3.0, dtype=t.double, requires_grad=True)
    y = x**2
    grad_x =t.autograd.grad(y, x, create_graph=True)
    grad_grad_x = t.autograd.grad(grad_x[0],x)
    assert same(grad_x[0], 6.0) and same(grad_grad_x[0], 2.0)


def test_seed_004_higher_derivative_through_the_function():
    x = t.randn(2, 3, dtype=t.double, requires_grad=True)
    w = t.randn(4, 3, dtype=t.double, requires_grad=True)
    y = LinearFunction003.apply(x, w).pow(2).sum()
    grad_x = t.autograd.grad(y, x, create_graph=True)
    (grad_grad_x,) = t.autograd.grad(grad_x[0].sum(), x)
    hessian_row_sums = 2 * arr(w).T @ arr(w).sum(1)
    assert same(grad_grad_x, np.tile(hessian_row_sums, (2, 1)), tol=1e-10)
