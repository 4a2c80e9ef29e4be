# SPDX-License-Identifier: BSD-3-Clause
"""Passes: splitting a module, running passes in order, and what a backend supports."""

import copy
import logging
import pickle

import pytest

import cograd as torch
from cograd import fx, nn
from cograd.fx.passes import pass_manager
from cograd.fx.passes.graph_drawer import FxGraphDrawer
from cograd.fx.passes.infra.pass_base import PassBase, PassResult
from cograd.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from cograd.fx.passes.operator_support import (
    OperatorSupport,
    OpSupports,
    any_chain,
    chain,
)
from cograd.fx.passes.shape_prop import ShapeProp
from cograd.fx.passes.split_module import split_module


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(torch.ones(3, 4))
        self.linear = nn.Linear(4, 5)
        self.seq = nn.Sequential(nn.Linear(4, 5), nn.ReLU())

    def forward(self, x, y=None, flag: int = 3):
        z = self.linear(x + self.param).clamp(min=0.0)
        a, b = torch.split(z + self.seq(y), [2, 3], dim=1)
        return {"z": z, "s": a.sum() * flag, "p": self.param, "x": x}, b


def thirds(traced):
    """Returns the function that puts a third of the nodes into each part."""
    order = {node: i for i, node in enumerate(traced.graph.nodes)}
    return lambda node: order[node] * 3 // len(order)


# torch writes this code, too.
SPLIT = """
def forward(self, x, y = None, flag : int = 3):
    param = self.param
    submod_0 = self.submod_0(x, param)
    submod_1 = self.submod_1(y, submod_0);  y = None
    getitem = submod_1[0]
    getitem_1 = submod_1[1];  submod_1 = None
    submod_2 = self.submod_2(getitem, flag);  getitem = flag = None
    return ({'z': submod_0, 's': submod_2, 'p': param, 'x': x}, getitem_1)
"""


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keep_original_order": True},
        {"keep_original_node_name": True},
        {"keep_original_input_name": False},
        {"partition_affix": "pp"},
        {"tuple_return": True},
    ],
)
def test_a_split_module_computes_the_same(options):
    traced = fx.symbolic_trace(Net())
    paths = {}
    split = split_module(traced, None, thirds(traced), paths, **options)
    given = torch.rand(3, 4), torch.rand(3, 4)
    for module in (split, copy.deepcopy(split), pickle.loads(pickle.dumps(split))):
        want, got = traced(*given), module(*given)
        assert torch.equal(got[1], want[1]) and got[0]["x"] is given[0]
        assert torch.equal(got[0]["s"], want[0]["s"]) and torch.equal(got[0]["z"], want[0]["z"])
    affix = "pp_" * ("partition_affix" in options)
    assert split.meta["partition_names"] == {f"submod_{affix}{i}" for i in range(3)}
    assert paths[f"submod_{affix}1.seq_0"] == "seq.0"
    first = getattr(split, f"submod_{affix}0")
    assert first.linear is traced.linear and split.param is traced.param
    inputs = [n.target for n in first.graph.nodes if n.op == "placeholder"]
    named = options.get("keep_original_input_name", True)
    assert inputs == (["x", "param"] if named else ["arg_0", "arg_1"])
    assert isinstance(first(torch.ones(3, 4), torch.ones(3, 4)), tuple) == (
        "tuple_return" in options
    )
    (split(*given)[0]["s"]).backward()
    assert traced.param.grad is not None


def test_split_writes_torchs_code():
    traced = fx.symbolic_trace(Net())
    order = ["add", "linear", "clamp", "seq_0", "seq_1", "add_1", "split", "getitem", "getitem_1"]
    places = {name: min(i // 3, 1) for i, name in enumerate(order)}
    split = split_module(traced, None, lambda node: places.get(node.name, 2))
    text = split.code.strip()
    assert text == SPLIT.strip()


def test_parts_are_called_in_their_order_or_the_one_of_their_nodes():
    traced = fx.symbolic_trace(lambda x, y: (torch.sin(x) + torch.cos(y)) * torch.tan(x))
    parts = {"sin": 1, "cos": 0, "add": 2, "tan": 0, "mul": 3}
    for keep, want in ((False, "0 1 2 3"), (True, "1 0 2 3")):
        split = split_module(traced, None, lambda n: parts[n.name], keep_original_order=keep)
        called = [n.target[-1] for n in split.graph.nodes if n.op == "call_module"]
        assert " ".join(called) == want
        assert torch.equal(
            split(torch.ones(2), torch.ones(2)), traced(torch.ones(2), torch.ones(2))
        )
    chain_ = fx.symbolic_trace(lambda x: torch.sin(torch.cos(torch.sin(x))))
    parts = {"sin": 0, "cos": 1, "sin_1": 0}
    with pytest.raises(RuntimeError, match="cycle exists between partitions! .*'0', '1'"):
        split_module(chain_, None, lambda n: parts[n.name])
    same = split_module(fx.symbolic_trace(lambda x: x), None, lambda n: 0)
    assert same(3) == 3 and same.meta["partition_names"] == set()


def test_splits_of_states_are_refused():
    graph = fx.Graph()

    def _set_grad_enabled(mode):
        torch.set_grad_enabled(mode)

    x = graph.placeholder("x")
    graph.call_function(_set_grad_enabled, (False,))
    graph.output(graph.call_function(torch.sin, (x,)))
    with pytest.raises(NotImplementedError, match="node _set_grad_enabled.* other parts"):
        split_module(fx.GraphModule({}, graph), None, lambda n: 0)


def recorder(name, log, result=None):
    def run(given):
        log.append(name)
        return given if result is None else result(given)

    run.__name__ = name
    return run


def test_functions_as_passes(caplog):
    log = []
    a, b, c = (recorder(n, log) for n in "abc")
    twice = pass_manager.loop_pass(b, 2)
    manager = pass_manager.PassManager.build_from_passlist([a, twice])
    manager.add_constraint(pass_manager.this_before_that_pass_constraint(a, b))
    assert manager("x") == "x" and log == ["a", "b", "b"]
    manager.add_constraint(pass_manager.these_before_those_pass_constraint(b, a))
    with pytest.raises(RuntimeError, match="at index 0 and .* at index 1"):
        manager("x")
    manager.remove_pass(["a"])
    manager.replace_pass(b, c)
    log.clear()
    assert manager("x") == "x" and log == ["c"]
    counts = pass_manager.loop_pass(lambda n: n + 1, predicate=lambda n: n < 5)
    assert pass_manager.PassManager([counts])(1) == 5
    for options in ({}, {"n_iter": 1, "predicate": bool}):
        with pytest.raises(AssertionError, match="Exactly one"):
            pass_manager.loop_pass(a, **options)
    with pytest.raises(RuntimeError, match="given 0"):
        pass_manager.loop_pass(a, 0)(1)
    with caplog.at_level(logging.INFO):
        hooked = pass_manager.log_hook(lambda given: given.append(1))
        assert pass_manager.inplace_wrapper(hooked)([0]) == [0, 1]
    assert "Return value: None" in caplog.text


def test_passes_with_results():
    log = []
    module = fx.symbolic_trace(lambda x: x + 1)
    same = recorder("same", log, lambda gm: PassResult(gm, False))
    change = pass_result_wrapper(recorder("change", log, lambda gm: gm))
    assert change.__name__ == "change" and pass_result_wrapper(None) is None
    assert PassManager([same, change])(module) == (module, True)
    assert PassManager([same], steps=3)(module) == (module, False)
    assert log == ["same", "change", "same"]  # not again if nothing has changed

    class Count(PassBase):
        count = 0

        def call(self, graph_module):
            self.count += 1
            return PassResult(graph_module, self.count < 3)

    counter = Count()
    assert PassManager([counter], steps=9)(module).modified and counter.count == 3
    before = this_before_that_pass_constraint
    manager = PassManager([same, change], [before(change, same)])
    with pytest.raises(RuntimeError, match="constraint violated"):
        manager.validate_constraints()
    manager(module)
    assert manager.passes == [change, same]
    with pytest.raises(RuntimeError, match="Circular dependency"):
        PassManager([same, change], [before(change, same), before(same, change)])(module)
    with pytest.raises(Exception, match="'run' pass after the following passes: ..same") as caught:
        PassManager([same, named("run", lambda gm: gm)])(module)
    assert isinstance(caught.value.__cause__, TypeError)
    assert "pass_result_wrapper" in str(caught.value.__cause__)
    with pytest.raises(TypeError, match="one variable"):
        manager.add_checks(lambda a, b: None)
    manager.run_checks_after_each_pass, seen = True, []
    manager.add_checks(seen.append)
    manager(module)
    assert seen == [module] * 3


def named(name, function):
    function.__name__ = name
    return function


def test_support_of_nodes():
    traced = fx.symbolic_trace(Net())
    ShapeProp(traced).propagate(torch.ones(3, 4), torch.ones(3, 4), 3)
    modules, nodes = dict(traced.named_modules()), {n.name: n for n in traced.graph.nodes}
    table = OperatorSupport(
        {
            "cograd.nn.modules.linear.Linear": None,
            "_operator.add": (([torch.float32], None), {}),
            "_operator.mul": (([torch.float64],), {}),
            "clamp": ((None,), {"min": [torch.int32]}),
        }
    )

    def supported(rule):
        return {n for n, node in nodes.items() if rule.is_node_supported(modules, node)}

    found = supported(table)
    assert {"add", "linear", "clamp", "x", "param", "output"} <= found
    assert not {"mul", "split", "seq_1"} & found
    other = OpSupports.decline_if_node_in_names({"add"})
    assert supported(chain(table, other)) == found - {"add"}
    assert supported(any_chain(table, other)) == set(nodes)
    single = OpSupports.decline_if_input_dtype(torch.float32)
    assert single.is_node_supported(modules, nodes["x"])
    assert not single.is_node_supported(modules, nodes["add"])
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (type(table).__mro__[1],), {})()


class Inner(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.linear = nn.Linear(4, 4)
        self.inner = fx.symbolic_trace(Inner())

    def forward(self, x):
        return self.inner(self.linear(x) * self.scale).sum(dim=1)


def outer_module():
    class Tracer(fx.Tracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, fx.GraphModule) or super().is_leaf_module(module, name)

    model = Outer()
    module = fx.GraphModule(model, Tracer().trace(model))
    ShapeProp(module).propagate(torch.ones(2, 4))
    return module


def test_graphs_are_drawn_with_their_edges_and_shapes(tmp_path):
    drawer = FxGraphDrawer(outer_module(), "net")
    text = drawer.get_dot_graph().to_string()
    assert text.startswith('digraph "net" {') and text.endswith("}\n")
    arrows = [line for line in text.splitlines() if " -> " in line]
    assert arrows == [
        '"linear.weight" -> "linear";',
        '"linear.bias" -> "linear";',
        '"x" -> "linear";',
        '"linear" -> "mul";',
        '"scale" -> "mul";',
        '"mul" -> "inner";',
        '"inner" -> "sum_1";',
        '"sum_1" -> "output";',
    ]
    linear = next(line for line in text.splitlines() if line.startswith('"linear" ['))
    assert "op_code=call_module|target=linear" in linear and r"float32[2,\ 4]" in linear
    assert r'"linear.weight" [label="{weight|float32[4,\ 4]}"' in text
    assert "dim=1" in next(line for line in text.splitlines() if line.startswith('"sum_1"'))
    assert sorted(drawer.get_all_dot_graphs()) == ["net", "net_inner"]
    assert '"relu" -> "mul";' in str(drawer.get_submod_dot_graph("inner"))
    drawer.get_main_dot_graph().write_raw(tmp_path / "net.dot")
    assert (tmp_path / "net.dot").read_text() == text


def test_drawn_graphs_leave_out_what_is_not_asked_for():
    module = outer_module()
    drawer = FxGraphDrawer(module, "net", ignore_getattr=True, ignore_parameters_and_buffers=True)
    text = drawer.get_dot_graph().to_string()
    assert '"scale"' not in text and "weight" not in text and '"linear" -> "mul";' in text
    with pytest.raises(TypeError, match="expected a GraphModule, as symbolic_trace returns, got"):
        FxGraphDrawer(Outer(), "net")


def test_pictures_of_graphs_need_graphviz(monkeypatch, tmp_path):
    graph = FxGraphDrawer(fx.symbolic_trace(Inner()), "net").get_dot_graph()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="'dot' is not on the path, so there is no svg: install"):
        graph.write_svg(tmp_path / "net.svg")
    assert not (tmp_path / "net.svg").exists()
    program = tmp_path / "dot"
    program.write_text('#!/bin/sh\nread line\necho "$1 $line"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert graph.create_png() == b'-Tpng digraph "net" {\n'
    graph.write_svg(tmp_path / "net.svg")
    assert (tmp_path / "net.svg").read_text() == '-Tsvg digraph "net" {\n'
    with pytest.raises(AttributeError, match="no attribute 'write_gif'"):
        graph.write_gif("x")
