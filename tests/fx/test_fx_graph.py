# SPDX-License-Identifier: BSD-3-Clause
"""Graphs and nodes: adding, changing, erasing, checking, printing."""

import copy
import operator
import warnings

import pytest

import cograd
from cograd import fx, nn
from cograd.fx.immutable_collections import immutable_dict, immutable_list


def chain():
    """Returns the graph of neg(relu(x)) and its nodes."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(cograd.relu, (x,))
    neg = graph.call_method("neg", (relu,))
    return graph, x, relu, neg, graph.output(neg)


def names(graph):
    return [node.name for node in graph.nodes]


def test_users_follow_arguments():
    graph, x, relu, neg, output = chain()
    assert relu.users == {neg: None} and relu.all_input_nodes == [x]
    neg.args = (x, [relu, {"a": (x, slice(relu, None))}])
    assert x.users == {relu: None, neg: None} and neg.all_input_nodes == [x, relu]
    neg.kwargs = {"k": relu}
    neg.args = ()
    assert x.users == {relu: None} and relu.users == {neg: None}
    neg.update_kwarg("k", x)
    neg.insert_arg(0, relu)
    neg.insert_arg(1, 3)
    neg.update_arg(1, x)
    assert neg.args == (relu, x) and neg.kwargs == {"k": x} and relu.users == {neg: None}
    with pytest.raises(AssertionError, match="must be between 0"):
        neg.insert_arg(7, x)
    assert output.args == (neg,)


def test_arguments_cannot_be_changed_in_place():
    graph, x, relu, *_ = chain()
    node = graph.call_function(cograd.add, ([x, 1], {"a": relu}))
    assert type(node.args[0]) is immutable_list and type(node.args[1]) is immutable_dict
    for change in (
        lambda: node.args[0].append(1),
        lambda: node.args[0].__setitem__(0, 1),
        lambda: node.args[1].update(a=1),
        lambda: node.kwargs.__setitem__("a", 1),
    ):
        with pytest.raises(TypeError, match="does not support mutation"):
            change()
    again = copy.deepcopy(immutable_list([1, immutable_dict(a=2)]))
    assert hash(again) == hash(immutable_list([1, immutable_dict(a=2)]))


def test_places_of_new_nodes():
    graph, x, relu, neg, output = chain()
    with graph.inserting_before(neg):
        graph.call_function(cograd.sin, (relu,))
        graph.call_function(cograd.cos, (relu,))
    with graph.inserting_after(x):
        graph.call_function(cograd.tan, (x,))
    with graph.inserting_before():
        graph.placeholder("first")
    with graph.inserting_after():
        late = graph.call_function(cograd.exp, (neg,))
    assert names(graph) == ["first", "x", "tan", "relu", "sin", "cos", "neg", "output", "exp"]
    output.prepend(late)
    relu.append(neg)
    assert names(graph) == ["first", "x", "tan", "relu", "neg", "sin", "cos", "exp", "output"]
    assert late.next is output and output.prev is late and len(graph.nodes) == 9
    assert x < relu < output and not output < x and sorted([output, x]) == [x, output]
    assert [n.name for n in reversed(graph.nodes)] == names(graph)[::-1]
    other = fx.Graph().placeholder("y")
    with pytest.raises(AssertionError, match="not in graph"):
        graph.inserting_before(other)
    with pytest.raises(AssertionError, match="into a different Graph"):
        x.append(other)


def test_erase_and_replace():
    graph, x, relu, neg, _ = chain()
    with pytest.raises(RuntimeError, match=r"Node relu but it still had 1 users .* \{neg: None\}"):
        graph.erase_node(relu)
    changed = relu.replace_all_uses_with(x)
    assert changed == [neg] and neg.args == (x,) and not relu.users
    graph.erase_node(relu)
    assert names(graph) == ["x", "neg", "output"] and x.users == {neg: None}
    with pytest.warns(UserWarning, match="already erased"):
        graph.erase_node(relu)
    with pytest.raises(RuntimeError, match="wrong graph"):
        fx.Graph().erase_node(graph.call_function(cograd.sin, (x,)))


def test_erasing_in_a_loop():
    graph, x, *_ = chain()
    for node in graph.nodes:
        if node.op == "call_function":
            node.replace_all_uses_with(x)
            graph.erase_node(node)
    assert names(graph) == ["x", "neg", "output"]


def test_replace_some_users_and_meta():
    graph, x, relu, neg, output = chain()
    both = graph.call_function(cograd.add, (relu, relu))
    relu.meta["k"] = 1
    done = relu.replace_all_uses_with(x, lambda user: user is both, propagate_meta=True)
    assert done == [both] and both.args == (x, x) and neg.args == (relu,) and x.meta == {"k": 1}
    with pytest.raises(AssertionError, match="already has .meta"):
        relu.replace_all_uses_with(x, propagate_meta=True)


def test_lint_names_what_is_wrong():
    graph, x, relu, neg, _ = chain()
    graph.lint()
    relu.args = (neg,)
    with pytest.raises(RuntimeError, match="'neg' of Node 'relu' was used before"):
        graph.lint()
    relu.args = (fx.Graph().placeholder("y"),)
    with pytest.raises(RuntimeError, match="'y' of Node 'relu' does not belong to this Graph"):
        graph.lint()
    graph = fx.Graph(nn.Linear(1, 1))
    with pytest.raises(AttributeError, match="missing"):
        graph.call_module("missing", ())
    with pytest.warns(UserWarning, match="get_attr Node with no underlying reference"):
        graph.get_attr("nothing.here")
    with pytest.raises(
        RuntimeError, match=r"nothing.here references nonexistent attribute nothing"
    ):
        graph.lint()


def test_wrong_nodes():
    graph = fx.Graph()
    with pytest.raises(AssertionError, match="'jump' is not in _legal_ops"):
        graph.create_node("jump", "x")
    with pytest.raises(ValueError, match="target relu has type str but a Callable is expected"):
        graph.call_function("relu")
    with pytest.raises(ValueError, match="but a str is expected"):
        graph.call_method(cograd.relu)
    with pytest.raises(AssertionError, match="args must be a tuple"):
        graph.create_node("placeholder", "x", [1])
    assert len(graph.nodes) == 0


def test_dead_code():
    def f(a):
        a.sin()
        cograd.cos(a)
        a.add_(1)
        cograd.relu_(a)
        cograd.add(a, 1, out=a)
        cograd._assert(a.shape, "text")
        cograd.nn.functional.relu(a, inplace=True)
        return a + 1

    module = fx.symbolic_trace(f)
    assert module.graph.eliminate_dead_code()
    kept = "a add_ relu_ add getattr_1 _assert relu add_1 output".split()
    assert names(module.graph) == kept and not module.graph.eliminate_dead_code()
    x, plain = cograd.ones(2), cograd.ones(2)
    module.recompile()
    assert module(x).tolist() == f(plain).tolist() and x.tolist() == plain.tolist()
    assert module.graph.eliminate_dead_code(lambda node: False)
    assert names(module.graph) == ["a", "add_1", "output"]


def test_declared_side_effects():
    seen = []

    @fx.has_side_effect
    def note(a):
        seen.append(a)

    graph = fx.Graph()
    a = graph.placeholder("a")
    graph.call_function(note, (a,))
    graph.output(a)
    assert not graph.eliminate_dead_code()
    fx.GraphModule(nn.Module(), graph)(3)
    assert seen == [3]


def test_copies():
    graph, x, relu, neg, output = chain()
    neg.meta["k"] = [1]
    other, val_map = fx.Graph(), {}
    result = other.graph_copy(graph, val_map)
    assert result is val_map[neg] and other.nodes and result.meta == {"k": [1]}
    assert names(other) == names(graph)[:-1] and not result.users
    again = fx.Graph()
    y = again.placeholder("y")
    result, old = again.graph_copy(graph, {x: y}, return_output_node=True)
    assert old is output and names(again) == ["y", "relu", "neg"] and result.name == "neg"
    deep = copy.deepcopy(graph)
    assert str(deep) == str(graph) and deep.owning_module is None
    assert not set(deep.nodes) & set(graph.nodes)


def test_names_are_unique_and_no_builtins():
    graph = fx.Graph()
    asked = ["x", "x", "x_1", "x_1", "sum", "class", "input", "0", "a.b", "torch", "é", "*args"]
    made = [graph.create_node("placeholder", name).name for name in asked]
    want = ["x", "x_1", "x_2", "x_3", "sum_1", "class_1", "input_1", "_0", "a_b", "torch_1", "_"]
    assert made == [*want, "_args"]


def test_find_nodes_and_output():
    graph, x, relu, neg, output = chain()
    more = graph.call_function(cograd.relu, (neg,))
    assert graph.find_nodes(op="call_function", target=cograd.relu) == [relu, more]
    assert graph.find_nodes(op="placeholder") == [x]
    with pytest.raises(AssertionError, match="Expected output node"):
        graph.output_node()
    graph.erase_node(more)
    assert graph.output_node() is output


def test_code_can_be_changed():
    graph, *_ = chain()

    def add_line(body):
        return ["import math\n", *body]

    with graph.on_generate_code(lambda current: add_line):
        assert "    import math\n    relu = " in graph.python_code("self").src
        with graph.on_generate_code(lambda current: lambda body: current(["pass\n", *body])):
            assert "    import math\n    pass\n" in graph.python_code("self").src
    assert "import" not in graph.python_code("self").src


def test_code_of_unusual_targets():
    graph = fx.Graph()
    x = graph.placeholder("x", type_expr=list[int], default_value=None)
    graph.call_function(operator.iadd, (x, 1))
    graph.call_function(operator.setitem, (x, 0, (slice(x, None), ..., None)))
    graph.call_function(getattr, (x, "no name"))
    graph.call_function(operator.not_, (x,))
    graph.call_module("a.0.b-c", (x,), {"key": [x, cograd.float32, cograd.device("cpu")]})
    lambda_ = graph.call_function(lambda v: v, (x,))
    graph.output((x, {"k": lambda_, 3: float("inf")}), type_expr=tuple)
    code = graph.python_code("self")
    for line in (
        "def forward(self, x : list[int] = None) -> tuple:",
        "x += 1;  iadd = x",
        "x[0] = (slice(x, None, None), Ellipsis, None);  setitem = x",
        "getattr_1 = getattr(x, 'no name')",
        "not_ = _operator_not_(x)",
        'a_0_b_c = getattr(getattr(self.a, "0"), "b-c")'
        "(x, key = [x, cograd.float32, device(type='cpu')])",
        "return (x, {'k': _lambda_, 3: inf})",
    ):
        assert line in code.src
    assert code.globals["_operator_not_"] is operator.not_


def test_listing(capsys):
    graph, *_ = chain()
    assert str(graph).splitlines() == [
        "graph():",
        "    %x : [num_users=1] = placeholder[target=x]",
        "    %relu : [num_users=1] = call_function[target=cograd.relu](args = (%x,), kwargs = {})",
        "    %neg : [num_users=1] = call_method[target=neg](args = (%relu,), kwargs = {})",
        "    return neg",
    ]
    graph.print_tabular()
    assert capsys.readouterr().out.splitlines()[0].split() == [
        "opcode", "name", "target", "args", "kwargs",
    ]  # fmt: skip


def test_normalized_arguments():
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(nn.functional.softmax, (x, 1))
    found = node.normalized_arguments(nn.Module(), normalize_to_only_use_kwargs=True)
    assert found.args == () and found.kwargs["input"] is x and found.kwargs["dim"] == 1
    node = graph.call_module("m", (x,))
    root = nn.Module()
    root.m = nn.Linear(1, 1)
    assert node.normalized_arguments(root).args == (x,)
    assert x.normalized_arguments(root) is None


def test_no_warning_for_what_exists():
    graph = fx.Graph(nn.Linear(1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.get_attr("weight")
