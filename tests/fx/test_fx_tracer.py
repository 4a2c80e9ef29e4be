# SPDX-License-Identifier: BSD-3-Clause
"""Tracers, proxies and wrapped functions; calls of any public function with a proxy."""

import gc
import inspect
import math
import subprocess
import sys
import threading

import pytest

import cograd
import cograd.nn.functional as F
from cograd import fx, nn
from cograd.fx import _overridable
from cograd.fx.proxy import GraphAppendingTracer, ParameterProxy, Proxy, TraceError


def traced(function, **concrete):
    return fx.symbolic_trace(function, concrete or None)


def targets(function):
    """Returns the targets of the calls that a function makes."""
    return [n.target for n in traced(function).graph.nodes if n.op.startswith("call_")]


@pytest.mark.parametrize(
    ("call", "target"),
    [
        (lambda p: F.relu(p), F.relu),
        (lambda p: F.max_pool2d(p, 2), F.max_pool2d),
        (lambda p: F.interpolate(p, scale_factor=2), F.interpolate),
        (lambda p: F.multi_head_attention_forward(
            p, p, p, 4, 2, None, None, None, None, False, 0.0, p, None
        ), F.multi_head_attention_forward),
        (lambda p: F.mse_loss(p, p), F.mse_loss),
        (lambda p: cograd.cat([p, p]), cograd.cat),
        (lambda p: cograd.stack((cograd.ones(2), p)), cograd.stack),
        (lambda p: cograd.einsum("ij,jk", p, p), cograd.einsum),
        (lambda p: cograd.einsum("ij,jk", [p, p]), cograd.einsum),
        (lambda p: cograd.split(p, 2), cograd.split),
        (lambda p: cograd.linalg.norm(p), cograd.linalg.norm),
        (lambda p: cograd.fft.fft(p), cograd.fft.fft),
        (lambda p: cograd.ones(p), cograd.ones),
        (lambda p: cograd.zeros((2, p)), cograd.zeros),
        (lambda p: cograd.where(cograd.ones(2) > 0, p, 1), cograd.where),
        (lambda p: cograd.add(p, p, out=p), cograd.add),
        (lambda p: cograd.is_floating_point(p), cograd.is_floating_point),
        (lambda p: cograd.numel(p), cograd.numel),
        (lambda p: cograd._assert(p, "text"), cograd._assert),
        (lambda p: nn.init.normal_(p), nn.init.normal_),
        (lambda p: cograd.pdist(p), cograd.pdist),
        (lambda p: cograd.hann_window(p), cograd.hann_window),
        (lambda p: cograd.vander(p), cograd.vander),
        (lambda p: p.sum(), "sum"),
        (lambda p: cograd.ones(2).add(p), "add"),
        (lambda p: cograd.ones(2) + p, "add"),
        (lambda p: cograd.ones(2)[p], "__getitem__"),
        (lambda p: cograd.ones(2, 2)[:, p], "__getitem__"),
        (lambda p: cograd.ones(2).view(p, 1), "view"),
        (lambda p: cograd.Tensor.mul(p, 2), "mul"),
    ],
)  # fmt: skip
def test_a_call_with_a_proxy_is_recorded(call, target):
    assert targets(call) == [target]


def test_assignment_is_recorded():
    def f(i, v):
        t = cograd.zeros(3)
        t[i] = v
        t[0] = v
        return t

    module = traced(f)
    assert [n.target for n in module.graph.find_nodes(op="call_method")] == ["__setitem__"] * 2
    assert module(2, 5.0).tolist() == [5, 0, 5]


@pytest.mark.parametrize("place", [F, cograd.functional, nn.init], ids=lambda m: m.__name__)
def test_every_python_function_is_recorded(place):
    """A proxy for each required parameter: one node, whose target is the function."""
    tried = 0
    for name, function in vars(place).items():
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        parameters = inspect.signature(function).parameters.values()
        if hasattr(function, "__wrapped__") or not function.__module__.startswith(place.__name__):
            continue
        graph = fx.Graph()
        proxy = Proxy(graph.placeholder("x"))
        needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        result = function(*[proxy for _ in needed])
        (node,) = graph.find_nodes(op="call_function") or graph.find_nodes(op="call_method")
        assert type(result) is Proxy and result.node is node, name
        assert node.target is function or node.target == name, name
        assert set(node.kwargs) <= {p.name for p in parameters}, name
        tried += 1
    assert tried > 3


def test_functions_are_themselves_again():
    code = F.relu.__code__
    graph = fx.Graph()
    proxy = Proxy(graph.placeholder("x"))
    assert F.relu.__code__ is not code and inspect.signature(F.relu).parameters["inplace"]
    assert F.relu(cograd.tensor([-1.0, 1.0])).tolist() == [0, 1]
    assert F.cross_entropy(cograd.zeros(1, 2), cograd.tensor([0])).item() == pytest.approx(
        math.log(2)
    )
    F.relu(proxy)
    del proxy
    gc.collect()
    assert F.relu.__code__ is code and _overridable._alive == 0


def test_threads_trace_at_once():
    results, errors = [], []

    def work(n):
        try:
            for _ in range(20):
                p = Proxy(fx.Graph().placeholder("x"))
                results.append(F.relu(p).node.target is F.relu)
                results.append(F.relu(cograd.tensor(-1.0)).item() == 0)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not errors and all(results) and len(results) == 160 and _overridable._alive == 0


def test_modules_outside_of_a_trace_are_as_before():
    layer, call, read = nn.Linear(2, 2), nn.Module.__call__, nn.Module.__getattr__
    with pytest.raises(TraceError):
        traced(lambda p: layer(p) if p else p)
    assert nn.Module.__call__ is call and nn.Module.__getattr__ is read
    assert math.sqrt(4) == 2 and not fx._symbolic_trace.is_fx_tracing()


def test_a_tracer_decides():
    class Inner(nn.Module):
        def forward(self, x):
            return x + 1

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self.fc = nn.Linear(2, 2)
            self.register_buffer("k", cograd.ones(2))

        def forward(self, x):
            n = 0
            for part in x:
                n = n + part
            if x.sum() > 0:
                n = n * self.k
            return self.fc(self.inner(n)), math.floor(3.5), self.fc.weight.shape[0]

    class Mine(fx.Tracer):
        proxy_buffer_attributes = True
        seen = ()

        def is_leaf_module(self, m, path):
            return isinstance(m, Inner)

        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter([obj[0], obj[1]])

        def call_module(self, m, forward, args, kwargs):
            self.seen = (*self.seen, self.path_of_module(m))
            return super().call_module(m, forward, args, kwargs)

        def create_node(self, *args, **kwargs):
            node = super().create_node(*args, **kwargs)
            node.meta["made"] = True
            return node

    net = Net()
    tracer = Mine(param_shapes_constant=True)
    graph = tracer.trace(net)
    assert tracer.seen == ("inner", "fc") and all(node.meta["made"] for node in graph.nodes)
    found = [(n.op, n.target) for n in graph.nodes]
    assert ("call_module", "inner") in found and ("get_attr", "fc.weight") in found
    assert ("get_attr", "k") in found and ("call_module", "fc") not in found
    assert graph.output_node().args[0][1:] == (3, 2)
    module = fx.GraphModule(net, graph)
    x = cograd.ones(2, 2)
    assert cograd.equal(module(x)[0], net(x)[0])
    assert graph.find_nodes(op="call_module")[0].meta["nn_module_stack"]["inner"] == (
        "inner", Inner,
    )  # fmt: skip


def test_stack_traces():
    class Recording(fx.Tracer):
        record_stack_traces = True

    graph = Recording().trace(lambda a: F.relu(a) + 1)
    trace = graph.find_nodes(op="call_function")[0].stack_trace
    assert "test_fx_tracer.py" in trace and "cograd/fx" not in trace
    code = graph.python_code("self", verbose=True).src
    assert "# File: " in code and "F.relu(a) + 1" in code


def test_asserts_can_be_recorded():
    class Asserting(fx.Tracer):
        trace_asserts = True

    namespace = {}  # pytest rewrites the asserts of this file
    exec("def f(a):\n    assert a > 0\n    return a", namespace)
    graph = Asserting().trace(namespace["f"])
    module = fx.GraphModule(nn.Module(), graph)
    assert module(1) == 1
    with pytest.raises(AssertionError):
        module(-1)
    with pytest.raises(TraceError):
        Asserting().trace(lambda a: a if a > 0 else -a)


def test_mutations_can_be_refused():
    class Functional(fx.Tracer):
        check_mutable_operations = True

    with pytest.raises(RuntimeError, match="mutable operation relu_"):
        Functional().trace(lambda a: cograd.relu_(a))


def test_wrap_checks_its_place():
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("len")
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        fx.wrap(3)


def test_autowrap():
    def own(a, b):
        return a if a > 0 else b

    namespace = {"own": own, "half": lambda v: v / 2}
    exec("def f(a):\n    return half(own(a, 1))", namespace)
    tracer = fx.Tracer(autowrap_functions=(own,))
    graph = tracer.trace(namespace["f"])
    assert [n.target for n in graph.find_nodes(op="call_function")][0] is own
    assert fx.GraphModule(nn.Module(), graph)(-4) == 0.5 and namespace["own"] is own


def test_concrete_arguments_are_checked():
    def f(a, flag, n=2, data=None):
        return a * n if flag else data["k"] + a

    module = fx.symbolic_trace(f, {"flag": True})
    assert module(3, True) == 6 and module(3, True, 4) == 12
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        module(3, False)
    module = fx.symbolic_trace(f, {"flag": False, "data": {"k": fx.PH}})
    assert module(3, False, 2, {"k": 5}) == 8
    with pytest.raises(AssertionError, match="n has been specialized to have value None"):
        fx.symbolic_trace(f, {"flag": True, "n": None})(3, True, 2)
    with pytest.warns(UserWarning, match="Was not able to add assertion"):
        fx.symbolic_trace(f, {"flag": object()})


def test_what_cannot_be_traced():
    for wrong in (3, nn.ReLU, cograd.relu):
        with pytest.raises(AssertionError, match="Expected FunctionType"):
            fx.symbolic_trace(wrong)
    with pytest.raises(NameError, match="not installed as a submodule"):
        traced(lambda a: nn.ReLU()(a))
    with pytest.raises(NotImplementedError, match="argument of type: <class 'set'>"):
        traced(lambda a: cograd.sum(a, dim={1}))

    class Net(nn.Module):
        def forward(self, a):
            return a + nn.Parameter(cograd.ones(1))

    with pytest.raises(NameError, match="parameter is not a member of this module"):
        fx.symbolic_trace(Net())


def test_proxies_by_hand():
    graph = fx.Graph()
    tracer = GraphAppendingTracer(graph)
    a, b = (Proxy(graph.placeholder(name), tracer) for name in "ab")
    c = F.relu(a @ b) + cograd.ones(2)[0] if False else F.relu(a @ b).reshape(-1)
    graph.output(c.node)
    module = fx.GraphModule(nn.Module(), graph)
    assert module(cograd.eye(2), -cograd.eye(2)).tolist() == [0, 0, 0, 0]
    assert repr(c) == "Proxy(reshape)" and not isinstance(c, cograd.Tensor)
    with pytest.raises(RuntimeError, match="Found multiple different tracers"):
        cograd.add(a, Proxy(fx.Graph().placeholder("z")))
    with pytest.raises(AttributeError):
        a.__array__
    with pytest.raises(AssertionError, match="Expected Parameter"):
        ParameterProxy(tracer, a.node, "p", cograd.ones(1))


def test_objects_of_proxyable_classes():
    class Pair(metaclass=fx.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

        def add(self):
            return self.left + self.right

    module = traced(lambda a: Pair(a, 1).add())
    assert module.graph.find_nodes(op="call_function", target=Pair) and module(2) == 3


def test_annotations_of_the_graph():
    with fx.traceback.annotate({"stage": 1}):
        graph = fx.Tracer().trace(lambda a: a + 1)
    assert graph.find_nodes(op="call_function")[0].meta["custom"] == {"stage": 1}
    assert "custom" not in fx.traceback.get_current_meta()


def test_import_is_lazy():
    code = "import cograd, sys; assert not {m for m in sys.modules if m.startswith('cograd.fx')}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_proxy_that_lives_until_exit():
    code = "from cograd import fx; p = fx.Proxy(fx.Graph().placeholder('x')); q = p.shape"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
