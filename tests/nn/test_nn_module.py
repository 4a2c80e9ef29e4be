# SPDX-License-Identifier: BSD-3-Clause
"""Module, Parameter, Buffer and the containers: registration, state, hooks, text, copies."""

import copy
import pickle
import types
from collections import OrderedDict

import pytest

import cograd as torch
from cograd import nn
from cograd.nn.modules import module as module_file
from cograd.nn.modules._hooks import register_module_forward_hook


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("cache", torch.zeros(2), persistent=False)

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


# registration


def test_parameter_type():
    data = torch.zeros(2)
    param = nn.Parameter(data)
    assert isinstance(param, nn.Parameter) and isinstance(param, torch.Tensor)
    assert param.requires_grad and param.is_leaf
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    data[0] = 5
    assert param[0].item() == 5
    assert not isinstance(data, nn.Parameter)
    assert type(param + 1) is torch.Tensor and not isinstance(param + 1, nn.Parameter)
    assert nn.Parameter().shape == (0,)
    assert repr(param) == "Parameter containing:\ntensor([5., 0.], requires_grad=True)"
    with pytest.raises(TypeError, match="argument 'data' must be a Tensor"):
        nn.Parameter([1.0])


def test_parameter_copy_and_pickle():
    param = nn.Parameter(torch.arange(3.0), requires_grad=False)
    for other in (copy.deepcopy(param), pickle.loads(pickle.dumps(param))):
        assert type(other) is nn.Parameter and not other.requires_grad
        assert torch.equal(other, param) and other.data_ptr() != param.data_ptr()


def test_buffer_type():
    m = nn.Module()
    m.kept = nn.Buffer(torch.ones(1))
    m.dropped = nn.Buffer(torch.ones(1), persistent=False)
    assert isinstance(m.kept, nn.Buffer) and not isinstance(torch.ones(1), nn.Buffer)
    assert list(m.state_dict()) == ["kept"]
    assert [name for name, _ in m.named_buffers()] == ["kept", "dropped"]


def test_attributes_are_registered():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale",
        "first.weight",
        "first.bias",
        "second.0.weight",
        "second.0.bias",
    ]
    assert [n for n, _ in net.named_parameters(recurse=False)] == ["scale"]
    assert [n for n, _ in net.named_parameters(prefix="p")][0] == "p.scale"
    assert [n for n, _ in net.named_buffers()] == ["count", "cache"]
    assert [n for n, _ in net.named_children()] == ["first", "second"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert len(list(net.parameters())) == 5 and len(list(net.buffers())) == 2
    assert len(list(net.children())) == 2 and len(list(net.modules())) == 5
    assert "scale" in dir(net) and "first" in dir(net) and "count" in dir(net)


def test_shared_members_come_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    layer = nn.Linear(1, 1)
    twice = nn.ModuleList([layer, layer])
    assert len(list(twice.modules())) == 2 and len(list(twice.children())) == 1
    assert len(list(twice.named_modules(remove_duplicate=False))) == 3


def test_assignment_rules():
    net = Net()
    with pytest.raises(TypeError, match=r"cannot assign 'int' as parameter 'scale'"):
        net.scale = 3
    with pytest.raises(TypeError, match="as child module 'first'"):
        net.first = torch.ones(1)
    with pytest.raises(TypeError, match="as buffer 'count'"):
        net.count = 3
    net.scale = None
    assert net.scale is None and "scale" in net._parameters
    net.scale = nn.Parameter(torch.ones(1))
    net.first = None
    assert net.first is None and list(net.state_dict())[0] == "scale"
    net.count = torch.ones(4)
    assert net._buffers["count"].shape == (4,)
    net.plain = torch.ones(1)
    assert "plain" in net.__dict__
    net.plain = nn.Parameter(torch.ones(1))
    assert "plain" in net._parameters and "plain" not in net.__dict__
    net.plain = nn.Tanh()
    assert "plain" in net._modules and "plain" not in net._parameters


def test_deletion():
    net = Net()
    del net.scale, net.first, net.cache
    net.plain = 1
    del net.plain
    for name in ("scale", "first", "cache", "plain"):
        assert not hasattr(net, name)
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        net.nothing
    with pytest.raises(AttributeError):
        del net.nothing


@pytest.mark.parametrize("kind", ["parameter", "buffer", "module"])
def test_register_errors(kind):
    net = Net()
    register = getattr(net, f"register_{kind}")
    with pytest.raises(KeyError, match="name can.*t contain"):
        register("a.b", None)
    with pytest.raises(KeyError, match="empty string"):
        register("", None)
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        register("forward", None)
    with pytest.raises(TypeError, match="name should be a string. Got int"):
        register(3, None)
    with pytest.raises(TypeError):
        register("x", 3)


def test_register_parameter_wants_leaf():
    net = Net()
    with pytest.raises(TypeError, match="object to parameter 'x'"):
        net.register_parameter("x", torch.ones(1))
    net.register_parameter("none", None)
    assert net.none is None and "none" not in net.state_dict()


def test_before_init():
    class Forgot(nn.Module):
        def __init__(self, value):
            self.value = value

    Forgot(3)
    for value in (nn.Parameter(torch.ones(1)), nn.Linear(1, 1)):
        with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
            Forgot(value)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        nn.Module(1)


def test_get_and_set_submodule():
    net = Net()
    assert net.get_submodule("second.0") is net.second[0] and net.get_submodule("") is net
    assert net.get_parameter("second.0.weight") is net.second[0].weight
    assert net.get_buffer("count") is net.count
    net.set_submodule("second.0", nn.Identity())
    assert isinstance(net.second[0], nn.Identity)
    with pytest.raises(AttributeError, match="Sequential has no attribute `7`"):
        net.get_submodule("second.7")
    with pytest.raises(AttributeError, match="`scale` is not an nn.Module"):
        net.get_submodule("scale")
    with pytest.raises(AttributeError, match="`count` is not an nn.Parameter"):
        net.get_parameter("count")
    with pytest.raises(AttributeError, match="`scale` is not a buffer"):
        net.get_buffer("scale")
    with pytest.raises(ValueError, match="without a target name"):
        net.set_submodule("", nn.Identity())
    with pytest.raises(AttributeError, match="no attribute"):
        net.set_submodule("second.9", nn.Identity(), strict=True)


# state


def test_state_dict_roundtrip():
    a, b = Net(), Net()
    state = a.state_dict()
    assert list(state) == [
        "scale",
        "count",
        "first.weight",
        "first.bias",
        "second.0.weight",
        "second.0.bias",
    ]
    assert not state["scale"].requires_grad
    assert state._metadata["second.0"] == {"version": 1}
    assert state["scale"].data_ptr() == a.scale.data_ptr()
    assert a.state_dict(keep_vars=True)["scale"] is a.scale
    assert list(a.state_dict(prefix="m."))[0] == "m.scale"
    identity = b.first.weight
    result = b.load_state_dict(state)
    assert repr(result) == "<All keys matched successfully>"
    assert b.first.weight is identity and torch.equal(identity, a.first.weight)


def test_load_state_dict_assign():
    a, b = Net(), Net()
    state = a.state_dict()
    b.load_state_dict(state, assign=True)
    assert b.scale.data_ptr() == a.scale.data_ptr() and isinstance(b.scale, nn.Parameter)


def test_load_state_dict_errors():
    net = nn.Sequential(OrderedDict(fc=nn.Linear(2, 3)))
    state = net.state_dict()
    del state["fc.bias"]
    state["extra.x"] = torch.ones(1)
    with pytest.raises(RuntimeError) as info:
        net.load_state_dict(state)
    assert str(info.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "fc.bias". \n'
        '\tUnexpected key(s) in state_dict: "extra.x". '
    )
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["fc.bias"] and result.unexpected_keys == ["extra.x"]
    with pytest.raises(RuntimeError) as info:
        net.load_state_dict({"fc.weight": torch.ones(2, 2), "fc.bias": torch.ones(3)})
    shapes = [str(torch.ones(2, 2).shape), str(torch.ones(3, 2).shape)]
    assert str(info.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        f"\tsize mismatch for fc.weight: copying a param with shape {shapes[0]} from checkpoint, "
        f"the shape in current model is {shapes[1]}."
    )
    with pytest.raises(TypeError, match="to be dict-like, got <class 'int'>"):
        net.load_state_dict(3)
    with pytest.raises(RuntimeError, match="Tensor-like object from checkpoint but received"):
        net.load_state_dict({"fc.weight": 1, "fc.bias": torch.ones(3)})


def test_load_zero_dim_from_one_element():
    net = nn.Module()
    net.register_buffer("n", torch.zeros(()))
    net.load_state_dict({"n": torch.ones(1)})
    assert net.n.item() == 1


def test_extra_state():
    class Extra(nn.Module):
        value = 1

        def get_extra_state(self):
            return {"value": self.value}

        def set_extra_state(self, state):
            self.value = state["value"]

    a, b = nn.Sequential(Extra()), nn.Sequential(Extra())
    a[0].value = 7
    assert list(a.state_dict()) == ["0._extra_state"]
    b.load_state_dict(a.state_dict())
    assert b[0].value == 7
    with pytest.raises(RuntimeError, match="Missing key"):
        b.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        nn.Sequential(nn.Identity()).load_state_dict(a.state_dict())


def test_state_dict_hooks():
    net = Net()
    seen = []

    def post(module, state, prefix, metadata):
        seen.append("post")
        state["added"] = torch.ones(1)

    handles = [
        net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append("pre")),
        net.register_state_dict_post_hook(post),
    ]
    assert "added" in net.state_dict() and seen == ["pre", "post"]
    for handle in handles:
        handle.remove()
    assert "added" not in net.state_dict()
    net.register_load_state_dict_pre_hook(lambda m, state, *rest: state.pop("added"))
    net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    state = net.state_dict()
    del state["scale"]
    state["added"] = torch.ones(1)
    net.load_state_dict(state)


# modes and conversion


def test_train_eval_apply():
    net = Net()
    assert net.training
    assert net.eval() is net and not net.second[0].training
    net.train()
    assert net.second[0].training
    with pytest.raises(ValueError, match="expected to be boolean"):
        net.train(1)
    order = []
    assert net.apply(lambda m: order.append(type(m).__name__)) is net
    assert order == ["Linear", "Linear", "Tanh", "Sequential", "Net"]


def test_dtype_conversion_keeps_identity():
    net = Net()
    net.register_buffer("index", torch.arange(3))
    weight = net.first.weight
    net(torch.ones(2)).sum().backward()
    assert net.double() is net
    assert net.first.weight is weight and weight.dtype == torch.float64
    assert weight.grad.dtype == torch.float64 and net.count.dtype == torch.float64
    assert net.index.dtype == torch.int64 and isinstance(weight, nn.Parameter)
    assert net.float().scale.dtype == torch.float32
    assert net.half().scale.dtype == torch.float16
    assert net.bfloat16().scale.dtype == torch.bfloat16
    assert net.to(torch.float64).scale.dtype == torch.float64
    assert net.to(torch.ones(1)).scale.dtype == torch.float32
    assert net.to("cpu", torch.float64).scale.dtype == torch.float64
    assert net.to(dtype=torch.float32).cpu().scale.dtype == torch.float32
    assert net.type(torch.float64).scale.dtype == torch.float64
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(torch.int64)


def test_requires_grad_and_zero_grad():
    net = Net()
    net(torch.ones(2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0, 0, 0]
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    assert net.requires_grad_(False) is net
    assert not any(p.requires_grad for p in net.parameters())


# calls and hooks


def test_forward_is_required():
    with pytest.raises(
        NotImplementedError, match=r'Module \[Module\] is missing the required "forward"'
    ):
        nn.Module()(1)


def test_call_without_hooks_takes_the_short_way(monkeypatch):
    def fail(*args):
        raise AssertionError("slow path")

    monkeypatch.setattr(module_file.Module, "_call_with_hooks", fail)
    nn.Identity()(torch.ones(1))
    m = nn.Identity()
    m.register_forward_hook(lambda *a: None)
    with pytest.raises(AssertionError, match="slow path"):
        m(torch.ones(1))


def test_forward_hooks():
    m = nn.Identity()
    log = []
    h1 = m.register_forward_pre_hook(lambda mod, args: (log.append("pre"), args[0] + 1)[1])
    h2 = m.register_forward_hook(lambda mod, args, out: (log.append("post"), out * 10)[1])
    assert m(torch.tensor(1.0)).item() == 20 and log == ["pre", "post"]
    h1.remove()
    assert m(torch.tensor(1.0)).item() == 10
    with h2:
        pass
    assert m(torch.tensor(1.0)).item() == 1


def test_forward_hook_options():
    class Kw(nn.Module):
        def forward(self, x, y=0):
            return x + y

    m = Kw()
    m.register_forward_pre_hook(lambda mod, a, k: (a, {"y": k["y"] * 2}), with_kwargs=True)
    m.register_forward_hook(lambda mod, a, k, out: out + k["y"], with_kwargs=True)
    order = []
    m.register_forward_hook(lambda *a: order.append(1))
    m.register_forward_hook(lambda *a: order.append(0), prepend=True)
    assert m(1, y=2) == 9 and order == [0, 1]
    m.register_forward_pre_hook(lambda mod, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
        m(1, y=2)


def test_always_called_hook():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    m = Broken()
    seen = []
    m.register_forward_hook(lambda *a: seen.append("plain"))
    m.register_forward_hook(lambda *a: seen.append("always"), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        m(1)
    assert seen == ["always"]


def test_global_forward_hook():
    seen = []
    handle = register_module_forward_hook(lambda m, a, o: seen.append(type(m).__name__))
    Net()(torch.ones(2))
    handle.remove()
    Net()(torch.ones(2))
    assert seen == ["Linear", "Linear", "Tanh", "Sequential", "Net"]


def test_full_backward_hook():
    m = nn.Linear(2, 2, bias=False)
    seen = []

    def hook(module, grad_input, grad_output):
        seen.append((module, grad_input, grad_output))
        return (grad_input[0] * 10,)

    m.register_full_backward_hook(hook)
    x = torch.ones(3, 2, requires_grad=True)
    m(x).sum().backward()
    assert len(seen) == 1 and seen[0][0] is m
    assert torch.equal(seen[0][2][0], torch.ones(3, 2))
    expected = torch.ones(3, 2).mm(m.weight.detach())
    assert torch.allclose(seen[0][1][0], expected) and torch.allclose(x.grad, expected * 10)
    m(x).sum().backward()
    assert len(seen) == 2


def test_full_backward_hook_without_input_grad():
    m = nn.Linear(2, 2)
    seen = []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi, go)))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        m(torch.ones(3, 2)).sum().backward()
    assert len(seen) == 1 and seen[0][0] == (None,)
    assert torch.equal(seen[0][1][0], torch.ones(3, 2)) and m.weight.grad is not None


def test_full_backward_pre_hook():
    m = nn.Identity()
    m.register_full_backward_pre_hook(lambda mod, grad_output: (grad_output[0] * 3,))
    x = torch.ones(2, requires_grad=True)
    m(x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    m.register_full_backward_pre_hook(lambda mod, grad_output: (1, 2))
    with pytest.raises(RuntimeError, match="got 2, but expected 1"):
        m(x).sum().backward()


def test_backward_hook_sees_all_inputs_and_outputs():
    class Two(nn.Module):
        def forward(self, x, n, y):
            return x * n, y * 2

    m = Two()
    seen = []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi, go)))
    x, y = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    a, b = m(x, 3, y)
    (a + b).sum().backward()
    gi, go = seen[0]
    assert [None if g is None else g.item() for g in gi] == [3, None, 2]
    assert [g.item() for g in go] == [1, 1]
    m(x, 3, y)[0].sum().backward()
    assert seen[1][1][1] is None


def test_backward_hook_double_backward():
    m = nn.Tanh()
    m.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 2,))
    x = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(m(x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    t = torch.tanh(x.detach())
    # In the second backward, the outer tanh's gradient passes through the hook once more.
    assert torch.allclose(g, 2 * (1 - t**2)) and h.item() != 0


# text, copies, containers


def test_repr():
    class Custom(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Sequential(nn.Linear(1, 2), nn.ReLU())

        def extra_repr(self):
            return "a=1\nb=2"

    assert repr(Custom()) == (
        "Custom(\n"
        "  a=1\n"
        "  b=2\n"
        "  (fc): Sequential(\n"
        "    (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "    (1): ReLU()\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Module()) == "Module()"


def test_deepcopy_and_pickle():
    net = Net()
    net(torch.ones(2)).sum().backward()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 3))))):
        assert isinstance(next(other.parameters()), nn.Parameter)
    other = copy.deepcopy(net)
    assert other.first is not net.first and other.first.weight is not net.first.weight
    x = torch.randn(4, 2)
    assert torch.equal(other(x), net(x))
    with torch.no_grad():
        other.first.weight.zero_()
    assert bool((net.first.weight != 0).any())


def test_deepcopy_keeps_sharing_and_hooks():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    net.register_forward_hook(lambda m, a, o: o * 0)
    other = copy.deepcopy(net)
    assert other[0].weight is other[1].weight
    assert bool((other(torch.ones(2)) == 0).all())


def test_sequential():
    s = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Tanh())
    assert len(s) == 3 and isinstance(s[-1], nn.Tanh) and isinstance(s[0:2], nn.Sequential)
    s[1] = nn.Sigmoid()
    assert isinstance(s[1], nn.Sigmoid)
    del s[0]
    assert [type(m).__name__ for m in s] == ["Sigmoid", "Tanh"] and list(s._modules) == ["0", "1"]
    s.append(nn.ReLU()).insert(0, nn.Identity())
    s.extend([nn.ReLU()])
    assert len(s) == 5 and isinstance(s.pop(0), nn.Identity)
    assert len(s + s) == 8 and len(s * 2) == 8
    with pytest.raises(IndexError, match="index 9 is out of range"):
        s[9]
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert named.a is named[0] and list(named[1:]._modules) == ["b"]


def test_sequential_numbers_what_remains():
    """torch numbers the rest, too, so state dicts have its keys."""
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh(), c=nn.ELU(), d=nn.GELU()))
    del named[0]
    assert list(named._modules) == ["0", "1", "2"]
    named.add_module("last", nn.Dropout())
    del named[1:3]
    assert list(named._modules) == ["0", "1"] and isinstance(named[1], nn.Dropout)


def test_sequential_is_repeated_in_place():
    s = same = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    s *= 3
    assert s is same and list(s._modules) == list("012345") and s[4] is s[0]
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        s *= 0
    with pytest.raises(TypeError, match="unsupported operand"):
        s *= 1.5
    assert len(s) == 6


def test_module_list_and_dict():
    layers = nn.ModuleList(nn.Linear(i + 1, 1) for i in range(3))
    assert len(layers) == 3 and layers[-1].in_features == 3 and len(layers[1:]) == 2
    layers.insert(1, nn.ReLU())
    layers += [nn.Tanh()]
    assert [type(m).__name__ for m in layers] == ["Linear", "ReLU", "Linear", "Linear", "Tanh"]
    del layers[1:3]
    assert list(layers._modules) == ["0", "1", "2"]
    layers[0] = nn.Identity()
    assert isinstance(layers.pop(0), nn.Identity) and len(layers) == 2
    table = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
    table["c"] = nn.Linear(1, 1)
    assert list(table) == ["b", "a", "c"] and "a" in table and len(table) == 3
    table.update([("d", nn.Identity())])
    del table["b"]
    assert isinstance(table.pop("a"), nn.Tanh) and list(table.keys()) == ["c", "d"]
    with pytest.raises(TypeError):
        table["x"] = 3


def test_parameter_list_and_dict():
    values = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1)), 3])
    assert isinstance(values[0], nn.Parameter) and values[2] == 3 and len(values) == 3
    assert list(values.state_dict()) == ["0", "1"]
    values.append(torch.ones(1))
    values[2] = torch.ones(5)
    assert len(list(values.parameters())) == 4 and values[-1].shape == (1,)
    table = nn.ParameterDict({"w": torch.ones(2), "a": 1})
    assert list(table.keys()) == ["a", "w"] and isinstance(table["w"], nn.Parameter)
    table["z"] = torch.ones(1)
    assert "z" in table and len(list(table.parameters())) == 2
    del table["w"]
    assert list(table.state_dict()) == ["z"] and table.get("w") is None
    assert table.pop("z").shape == (1,)


def test_parameter_dict_order():
    """An OrderedDict, a ParameterDict and pairs keep their order; other mappings are sorted."""
    pairs = [("z", 1), ("a", 2), ("m", 3)]
    keys = [key for key, _ in pairs]
    table = nn.ParameterDict(pairs)
    assert list(table) == keys == list(nn.ParameterDict(OrderedDict(pairs)))
    assert list(table.copy()) == keys == list(nn.ParameterDict(table))
    assert list(nn.ParameterDict(dict(pairs))) == sorted(keys)
    assert list(nn.ParameterDict(types.MappingProxyType(dict(pairs)))) == sorted(keys)
    assert list(table | nn.ParameterDict([("y", 4), ("b", 5)])) == [*keys, "y", "b"]
    assert list({"y": 4, "a": 0} | table) == ["a", "y", "z", "m"]
    assert table.popitem() == ("m", 3) and list(reversed(table)) == ["a", "z"]
    table["a"] = 7
    assert list(table.items()) == [("z", 1), ("a", 7)]


def test_seed_linear_module():
    class LinearFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input, weight, bias=None):
            ctx.save_for_backward(input, weight, bias)
            output = input.mm(weight.t())
            if bias is not None:
                output += bias.unsqueeze(0).expand_as(output)
            return output

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

    class Linear(nn.Module):
        def __init__(self, input_features, output_features, bias=True):
            super().__init__()
            self.input_features = input_features
            self.output_features = output_features
            self.weight = nn.Parameter(torch.Tensor(output_features, input_features))
            if bias:
                self.bias = nn.Parameter(torch.Tensor(output_features))
            else:
                self.register_parameter("bias", None)
            self.weight.data.uniform_(-0.1, 0.1)
            if self.bias is not None:
                self.bias.data.uniform_(-0.1, 0.1)

        def forward(self, input):
            return LinearFunction.apply(input, self.weight, self.bias)

        def extra_repr(self):
            return "in_features={}, out_features={}, bias={}".format(  # noqa: UP032
                self.input_features, self.output_features, self.bias is not None
            )

    for bias in (True, False):
        mine, built_in = Linear(4, 3, bias), nn.Linear(4, 3, bias)
        mine.load_state_dict(built_in.state_dict())
        x = torch.randn(5, 4)
        mine(x).sin().sum().backward()
        built_in(x).sin().sum().backward()
        for a, b in zip(mine.parameters(), built_in.parameters()):
            assert torch.allclose(a.grad, b.grad)
        assert repr(mine) == f"Linear(in_features=4, out_features=3, bias={bias})"
