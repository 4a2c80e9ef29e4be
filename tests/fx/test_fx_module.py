# SPDX-License-Identifier: BSD-3-Clause
"""GraphModule: code, copies, pickles, folders, submodules, errors."""

import copy
import gc
import importlib.util
import io
import linecache
import pickle
import subprocess
import sys
import textwrap
import traceback
import weakref

import pytest

import cograd
from cograd import fx, nn
from cograd.fx import GraphModule, wrap


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.register_buffer("shift", cograd.ones(3))
        self.register_buffer("gone", cograd.ones(3), persistent=False)
        self.scale = nn.Parameter(cograd.full((3,), 2.0))
        self.unused = nn.Linear(1, 1)

    def forward(self, x):
        return self.inner(self.fc(x)) * self.scale + self.shift + self.gone


@wrap
def outside(x, n):
    return x * n


def trace_net():
    cograd.manual_seed(0)
    return fx.symbolic_trace(Net())


X = cograd.linspace(-1, 1, 6).reshape(2, 3)


def test_state_is_that_of_the_module():
    traced = trace_net()
    net = Net()
    net.load_state_dict(traced.state_dict(), strict=False)
    assert cograd.equal(traced(X), net(X))
    assert set(traced.state_dict()) == {
        "scale", "shift", "fc.weight", "fc.bias", "inner.0.weight", "inner.0.bias",
    }  # fmt: skip
    traced(X).sum().backward()
    assert traced.fc.weight.grad is not None and traced.training
    assert type(traced).__name__ == "Net" and isinstance(traced, GraphModule)


def test_recompile():
    traced = trace_net()
    for node in traced.graph.find_nodes(op="call_module", target="inner.1"):
        with traced.graph.inserting_after(node):
            new = traced.graph.call_function(cograd.tanh, node.args)
        node.replace_all_uses_with(new)
        traced.graph.erase_node(node)
    before = traced(X)
    assert "tanh" not in traced.code
    code = traced.recompile()
    assert code.src == traced.code and "cograd.tanh(inner_0)" in traced.code
    assert not cograd.equal(before, traced(X))
    traced.graph.lint()


def test_copies_are_independent():
    traced = trace_net()
    deep, shallow = copy.deepcopy(traced), copy.copy(traced)
    assert deep.code == traced.code == shallow.code
    assert deep.graph is not traced.graph and deep.graph.owning_module is deep
    assert shallow.fc is traced.fc and deep.fc is not traced.fc
    want = traced(X)
    with cograd.no_grad():
        deep.fc.weight.zero_()
    deep.graph.eliminate_dead_code()
    assert cograd.equal(traced(X), want) and not cograd.equal(deep(X), want)
    assert type(deep).forward is not type(traced).forward
    traced.meta["k"] = [1]
    again = copy.deepcopy(traced)
    again.meta["k"].append(2)
    assert traced.meta == {"k": [1]}
    tree = fx.symbolic_trace(lambda a, d: {"out": a + d["k"]}, {"d": {"k": fx.PH}})
    assert copy.deepcopy(tree)(1, {"k": 2}) == {"out": 3} == tree(1, {"k": 2})


def test_pickles():
    traced = trace_net()
    loaded = pickle.loads(pickle.dumps(traced))
    assert loaded.code == traced.code and cograd.equal(loaded(X), traced(X))
    assert type(loaded).__name__ == "Net" and loaded.eval().training is False
    wrapped = fx.symbolic_trace(lambda a: outside(a, 3) + abs(a))
    again = pickle.loads(pickle.dumps(wrapped))
    assert again(2) == 8 and [n.name for n in again.graph.nodes][1] == "outside"
    buffer = io.BytesIO()
    cograd.save(traced, buffer, format="torch")
    buffer.seek(0)
    saved = cograd.load(buffer, weights_only=False)
    assert cograd.equal(saved(X), traced(X))


def test_pickles_of_the_alias(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import pickle, sys, torch
            from torch import fx, nn
            import torch.nn.functional as F
            module = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.GELU()))
            with torch.no_grad():
                for p in module.parameters():
                    p.fill_(0.5)
            graph = module.graph
            with graph.inserting_before(graph.output_node()):
                node = graph.call_function(F.relu, (graph.output_node().args[0],))
                node = graph.call_function(torch.add, (node, 1.0))
            graph.output_node().args = (node,)
            module.recompile()
            assert "torch.nn.functional.relu" in module.code and "torch.add" in module.code
            pickle.dump(module, open("module.pkl", "wb"))
            module.to_folder("folder", "Net")
            print(module(torch.ones(3)).tolist())
            """
        )
    )
    command = [sys.executable, "-m", "cograd", "run", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    loaded = pickle.loads((tmp_path / "module.pkl").read_bytes())
    assert str(loaded(cograd.ones(3)).tolist()) == done.stdout.strip()
    assert "cograd.nn.functional.relu" in loaded.graph.python_code("self").src


def test_folder(tmp_path):
    traced = trace_net()
    with pytest.warns(UserWarning, match=r"saved as pickled files instead: \['inner'\]"):
        traced.to_folder(tmp_path / "made", "Net")
    spec = importlib.util.spec_from_file_location(
        "made",
        tmp_path / "made" / "__init__.py",
        submodule_search_locations=[str(tmp_path / "made")],
    )
    made = importlib.util.module_from_spec(spec)
    sys.modules["made"] = made
    try:
        spec.loader.exec_module(made)
        assert cograd.equal(made.Net()(X), traced(X))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "made"]:
            del sys.modules[name]


def test_submodules():
    traced = trace_net()
    assert traced.add_submodule("a.b.c", nn.ReLU()) and isinstance(traced.a.b.c, nn.ReLU)
    assert not traced.add_submodule("scale.x", nn.ReLU())
    assert not traced.delete_submodule("a.x") and not traced.delete_submodule("x.y")
    traced.delete_all_unused_submodules()
    assert {name for name, _ in traced.named_modules()} == {
        "", "fc", "inner", "inner.0", "inner.1",
    }  # fmt: skip
    assert traced.delete_submodule("inner.1") and not hasattr(traced.inner, "1")


def test_from_a_dict():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_module("deep.layer", (x,))
    graph.output(graph.call_function(cograd.add, (y, graph.get_attr("deep.k"))))
    layer = nn.Linear(2, 2)
    module = GraphModule({"deep.layer": layer, "deep.k": cograd.ones(2)}, graph, "Made")
    assert cograd.equal(module(cograd.ones(2)), layer(cograd.ones(2)) + 1)
    assert "deep.k" in module.state_dict() and type(module).__name__ == "Made"
    with pytest.raises(RuntimeError, match="target deep.k but that target was not provided"):
        GraphModule({"deep.layer": layer}, graph)
    with pytest.raises(RuntimeError, match="Unsupported type 3 passed for root"):
        GraphModule(3, graph)


def test_errors_show_the_line():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(cograd.add, (graph.call_function(cograd.sin, (x,)), "a")))
    module = GraphModule(nn.Module(), graph)
    with pytest.raises(TypeError) as caught:
        module(cograd.ones(2))
    text = "".join(traceback.format_exception(caught.value))
    assert "add = cograd.add(sin, 'a')" in text and "in forward" in text
    if sys.version_info >= (3, 11):
        assert "line 6 of the traced Module's generated forward" in caught.value.__notes__[0]
    file = type(module).forward.__code__.co_filename
    assert "cograd.sin" in linecache.getline(file, 5)


def test_readable(capsys):
    traced = trace_net()
    outer = nn.Module()
    outer.part = traced
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("part", (x,)))
    text = GraphModule(outer, graph).print_readable()
    assert capsys.readouterr().out == text + "\n"
    assert text.startswith("class GraphModule(torch.nn.Module):\n    def forward(self, x):\n")
    assert "    class part(torch.nn.Module):\n        def forward(self, x):\n" in text
    assert "# To see more debug info" in str(traced)


def test_hooks_on_changes():
    traced = trace_net()
    seen = []
    traced._register_create_node_hook(lambda node: seen.append(("new", node.name)))
    traced._register_erase_node_hook(lambda node: seen.append(("gone", node.name)))
    node = traced.graph.find_nodes(op="call_module", target="fc")[0]
    with traced._set_replace_hook(lambda old, new, user: seen.append((old.name, new, user.name))):
        with traced.graph.inserting_after(node):
            new = traced.graph.call_function(cograd.sin, (node.args[0],))
        node.replace_all_uses_with(new)
    traced.graph.erase_node(node)
    assert seen == [("new", "sin"), ("fc", "sin", "inner_0"), ("gone", "fc")]


def test_module_hooks_run():
    traced = trace_net()
    seen = []
    traced.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    traced(X)
    assert seen == [(2, 3)]


def test_recompiling_keeps_nothing_alive():
    module = fx.symbolic_trace(lambda a: outside(a, 3))
    known, lines = len(fx._tracer._wrapped_fns_to_patch), len(linecache.cache)
    for _ in range(5):
        module.recompile()
    assert len(fx._tracer._wrapped_fns_to_patch) == known
    gc.collect()
    assert len(linecache.cache) <= lines + 1
    again = fx.symbolic_trace(module)
    assert again.graph.find_nodes(op="call_function", target=outside) and again(2) == 6
    ref = weakref.ref(module.graph)
    del module
    gc.collect()
    assert ref() is None
