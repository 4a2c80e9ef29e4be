# SPDX-License-Identifier: BSD-3-Clause
"""Interpreter, Transformer, ShapeProp, fusion, and replacement of patterns."""

import operator

import pytest

import cograd
import cograd.nn.functional as F
from cograd import fx, nn
from cograd.fx.experimental.optimization import fuse, remove_dropout
from cograd.fx.passes.infra.pass_base import PassBase, PassResult
from cograd.fx.passes.shape_prop import ShapeProp
from cograd.fx.passes.tools_common import legalize_graph
from cograd.fx.subgraph_rewriter import replace_pattern_with_filters

X = cograd.linspace(-1, 1, 12).reshape(4, 3)


def net():
    cograd.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 2)).eval()


def test_interpreter_runs_a_graph():
    module = fx.symbolic_trace(net())
    assert cograd.equal(fx.Interpreter(module).run(X), module(X))
    interpreter = fx.Interpreter(module, garbage_collect_values=False)
    given = [X]
    assert cograd.equal(interpreter.boxed_run(given), module(X)) and given == []
    assert len(interpreter.env) == len(module.graph.nodes)
    first = next(iter(module.graph.nodes))
    got = fx.Interpreter(module).run(initial_env={first: X})
    assert cograd.equal(got, module(X))


def test_interpreter_frees_values():
    def f(a):
        return ((a + 1) * 2 - 3).sum()

    alive = []

    class Counting(fx.Interpreter):
        def run_node(self, n):
            alive.append(len(self.env))
            return super().run_node(n)

    Counting(fx.symbolic_trace(f)).run(X)
    assert max(alive) == 1


def test_interpreter_subclass_changes_calls():
    class Swapped(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(
                cograd.cos if target is cograd.sin else target, args, kwargs
            )

        def call_method(self, target, args, kwargs):
            return super().call_method("neg" if target == "abs" else target, args, kwargs)

    module = fx.symbolic_trace(lambda a: cograd.sin(a) + a.abs())
    assert cograd.equal(Swapped(module).run(X), X.cos() - X)


def test_interpreter_errors_name_the_node():
    module = fx.symbolic_trace(lambda a, b=2: cograd.add(a, b) @ a)
    with pytest.raises(RuntimeError, match=r"While executing %matmul : \[num_users=1\]"):
        fx.Interpreter(module).run(X)
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter a"):
        fx.Interpreter(module).run()
    keyed = fx.symbolic_trace(lambda d: d["missing"])
    with pytest.raises(RuntimeError, match="While executing %getitem"):
        fx.Interpreter(keyed).run({})


def test_interpreter_takes_trees_apart():
    module = fx.symbolic_trace(lambda a, d: (a + d["k"],), {"d": {"k": fx.PH}})
    assert fx.Interpreter(module).run(1, {"k": 2}) == (3,) == module(1, {"k": 2})
    star = fx.symbolic_trace(lambda *args: args[0] - args[1])
    assert fx.Interpreter(star).run(5, 3) == 2


def test_transformer():
    class Gelu(fx.Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.ReLU):
                return F.gelu(*args)
            return super().call_module(target, args, kwargs)

    module = fx.symbolic_trace(net())
    same, changed = fx.Transformer(module).transform(), Gelu(module).transform()
    assert same.code == module.code and cograd.equal(same(X), module(X))
    assert changed.graph.find_nodes(op="call_function", target=F.gelu)
    assert not cograd.equal(changed(X), module(X))


def test_shape_prop():
    module = fx.symbolic_trace(net())
    ShapeProp(module).propagate(X)
    metas = [node.meta["tensor_meta"] for node in module.graph.nodes]
    assert [tuple(meta.shape) for meta in metas] == [(4, 3), *[(4, 4)] * 3, (4, 2), (4, 2)]
    assert metas[0].dtype == cograd.float32 and metas[0].memory_format == cograd.contiguous_format
    assert metas[1].requires_grad and not metas[0].requires_grad
    text = module.print_readable(print_output=False)
    assert '_0: "f32[4, 4]" = ' in text
    pair = fx.symbolic_trace(lambda a: a.max(dim=1))
    ShapeProp(pair).propagate(X)
    found = pair.graph.find_nodes(op="call_method")[0].meta["tensor_meta"]
    assert [tuple(meta.shape) for meta in found] == [(4,), (4,)]


def test_fusion():
    cograd.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 2, 1, bias=False),
        nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 4), nn.BatchNorm1d(4),
    )  # fmt: skip
    for norm in (model[1], model[4], model[7]):
        norm.running_mean.copy_(cograd.randn(norm.num_features))
        norm.running_var.copy_(cograd.rand(norm.num_features) + 0.5)
    model.eval()
    x = cograd.randn(2, 2, 6, 6)
    fused = fuse(model)
    assert [type(m).__name__ for m in fused.children()] == [
        "Conv2d", "ReLU", "Conv2d", "Flatten", "Linear",
    ]  # fmt: skip
    cograd.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-5)


def test_remove_dropout():
    model = net().train()
    clean = remove_dropout(model)
    assert not [m for m in clean.modules() if isinstance(m, nn.Dropout)]
    assert cograd.equal(clean(X), model.eval()(X))


def test_legalize_sorts():
    module = fx.symbolic_trace(lambda a: (a + 1) * a)
    nodes = list(module.graph.nodes)
    nodes[-1].append(nodes[1])
    with pytest.raises(RuntimeError, match="used before"):
        module.graph.lint()
    legalize_graph(module)
    module.graph.lint()
    assert module(3) == 12
    first, last = module.graph.find_nodes(op="call_function")
    first.args = (last, 1)
    with pytest.raises(RuntimeError, match="has cycles"):
        legalize_graph(module)


def test_passes_as_objects():
    class ToCos(PassBase):
        def call(self, module):
            for node in module.graph.find_nodes(op="call_function", target=cograd.sin):
                node.target = cograd.cos
            module.recompile()
            return PassResult(module, True)

    module = fx.symbolic_trace(lambda a: cograd.sin(a))
    assert ToCos()(module).modified and cograd.equal(module(X), X.cos())


def test_replace_pattern():
    module = fx.symbolic_trace(lambda a, b: cograd.cat([a, b]).sum() + cograd.cat([b, a]).sum() * a)
    found = fx.replace_pattern(
        module, lambda p, q: cograd.cat([p, q]).sum(), lambda p, q: p.sum() + q.sum()
    )
    assert len(found) == 2 and not module.graph.find_nodes(op="call_function", target=cograd.cat)
    module.graph.lint()
    assert cograd.equal(module(X, X), 2 * X.sum() + 2 * X.sum() * X)
    assert {n.name for n in found[0].nodes_map if n.op == "placeholder"} == {"p", "q"}


def test_replace_pattern_leaves_what_is_used_elsewhere():
    def f(a):
        inner = cograd.sin(a)
        return cograd.cos(inner) + inner

    module = fx.symbolic_trace(f)
    assert not fx.replace_pattern(
        module, lambda p: cograd.cos(cograd.sin(p)), lambda p: cograd.tanh(p)
    )
    assert cograd.equal(module(X), X.sin().cos() + X.sin())


def test_replace_chained_patterns():
    module = fx.symbolic_trace(lambda a: cograd.sin(cograd.sin(cograd.sin(a))))
    found = fx.replace_pattern(module, lambda p: cograd.sin(p), lambda p: cograd.cos(p) + 1)
    assert len(found) == 3
    want = ((X.cos() + 1).cos() + 1).cos() + 1
    assert cograd.equal(module(X), want)


def test_replace_pattern_with_modules():
    class Pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.ReLU()

        def forward(self, x):
            return self.layer(x)

    class New(nn.Module):
        def __init__(self):
            super().__init__()
            self.soft = nn.Softplus()
            self.k = nn.Parameter(cograd.ones(1))

        def forward(self, x):
            return self.soft(x) * self.k

    module = fx.symbolic_trace(net())
    found = fx.replace_pattern(module, Pattern(), New())
    assert found == [] or module.soft  # the target of the module has to be the same
    module = fx.symbolic_trace(nn.Sequential())
    graph = module.graph
    with graph.inserting_before(graph.output_node()):
        module.add_submodule("layer", nn.ReLU())
        node = graph.call_module("layer", (graph.output_node().args[0],))
    graph.output_node().args = (node,)
    module.recompile()
    assert len(fx.replace_pattern(module, Pattern(), New())) == 1
    assert not hasattr(module, "layer") and cograd.equal(module(X), F.softplus(X))
    assert "k" in dict(module.named_parameters())


def test_filters_literals_and_several_results():
    def f(a):
        return a * 2 + a * 3

    module = fx.symbolic_trace(f)
    assert not fx.replace_pattern(module, lambda p: p * 5, lambda p: p)
    done = replace_pattern_with_filters(
        module, lambda p: p * 5, lambda p: p - 1, ignore_literals=True,
        match_filters=[lambda match, graph, pattern: 3 in match.returning_nodes[0].args],
    )  # fmt: skip
    assert len(done) == 1 and done[0].replacements[0].target is operator.sub
    assert module(10) == 29
    pair = fx.symbolic_trace(lambda a: [cograd.sin(a), cograd.cos(a)])
    found = fx.replace_pattern(
        pair, lambda p: (cograd.sin(p), cograd.cos(p)), lambda p: (p + 1, p + 2)
    )
    assert len(found) == 1 and pair(1) == [2, 3]
    with pytest.raises(AssertionError, match="different numbers of inputs"):
        fx.replace_pattern(pair, lambda p: p + 1, lambda p, q: p + q)


def test_arguments_by_position_and_name_are_the_same():
    module = fx.symbolic_trace(lambda a: F.softmax(a, dim=1))
    found = fx.replace_pattern(
        module, lambda p: F.softmax(p, 1), lambda p: F.log_softmax(p, 1).exp()
    )
    assert len(found) == 1
    cograd.testing.assert_close(module(X), F.softmax(X, 1))
