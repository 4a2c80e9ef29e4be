# SPDX-License-Identifier: BSD-3-Clause
"""graph.draw(y, "graph.html"): the page's content and, with Chromium, its behaviour."""

import base64
import json
import re
import zlib

import numpy as np
import pytest
from browser import browser, in_browser

import cograd as torch
from cograd import nn
from cograd.autograd import graph


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x):
        return x + torch.relu(self.up(self.norm(x)))


def recorded(blocks=3):
    model = nn.Sequential(*[Block() for _ in range(blocks)])
    with graph.record_modules(model) as calls:
        y = model(torch.randn(2, 4)).sum()
    return model, calls, y


def data_of(path):
    text = re.search(r"const DATA = (\{.*\});", path.read_text())[1]
    data = json.loads(text)
    kinds = dict.fromkeys(("name", "output", "place", "edges", "group"), np.int32)
    kinds |= dict.fromkeys(("saved", "ns", "sequence"), np.float64)
    for key, kind in kinds.items():
        data[key] = np.frombuffer(zlib.decompress(base64.b64decode(data[key])), kind)
    return data


def group_path(data, g):
    parts = []
    while g > 0:
        parts.append(data["groupNames"][g])
        g = data["groupParents"][g]
    return "/".join(reversed(parts))


def test_nodes_edges_and_modules(tmp_path):
    model, calls, y = recorded()
    path = tmp_path / "graph.html"
    assert graph.draw(y, path, params=dict(model.named_parameters()), modules=calls) == str(path)
    data = data_of(path)
    names = [data["names"][i] for i in data["name"]]
    assert sorted(names) == sorted(node.name() for node in walk(y.grad_fn))
    assert len(data["edges"]) == 2 * sum(
        n is not None for node in walk(y.grad_fn) for n, _ in node.next_functions
    )
    of_linear = {
        group_path(data, data["group"][i]) for i, n in enumerate(names) if n == "LinearBackward0"
    }
    assert of_linear == {f"Sequential/{b}/{b}.up" for b in range(3)}
    assert set(data["leaves"].values()) == set(dict(model.named_parameters()))
    assert data["saved"][names.index("ReluBackward0")] > 0


def walk(root):
    seen, stack = {}, [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            stack.extend(n for n, _ in node.next_functions if n is not None)
    return seen.values()


def test_a_module_is_no_graph(tmp_path):
    for net in (nn.Linear(1, 1), nn.Sequential(nn.Linear(1, 1))):
        with pytest.raises(RuntimeError, match=f"got {type(net).__name__}: draw what it returns"):
            torch.autograd.graph.draw(net, tmp_path / "net.html")


def test_a_module_called_twice_and_one_that_raises(tmp_path):
    inner = nn.Linear(3, 3)
    model = nn.ModuleList([inner])

    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    model.append(Fails())
    with graph.record_modules(model) as calls:
        x = inner(inner(torch.randn(1, 3)))
        with pytest.raises(ValueError, match="no"):
            model[1](x)
        y = inner(x).sum()
    assert [c[0] for c in calls].count("0") == 3
    path = tmp_path / "g.html"
    graph.draw(y, path, modules=calls)
    assert {"0", "0 (2)", "0 (3)"} <= set(data_of(path)["groupNames"])
    assert not inner._forward_hooks
    assert not inner._forward_pre_hooks


def test_long_graphs_fold_into_runs(tmp_path):
    x = y = torch.ones(2, requires_grad=True)
    for _ in range(5000):
        y = y.sin()
    graph.draw(y, tmp_path / "g.html")
    data = data_of(tmp_path / "g.html")
    members = np.bincount(
        np.r_[data["group"], data["groupParents"][1:]], minlength=len(data["groupNames"])
    )
    assert len(data["name"]) == 5001
    assert members.max() <= 49
    del x


def test_text_cannot_leave_the_script(tmp_path):
    x = torch.ones(1, requires_grad=True)
    graph.draw(x * 2, tmp_path / "g.html", params={"</script><b>": x})
    assert (tmp_path / "g.html").read_text().count("</script>") == 1


def test_modules_need_a_page(tmp_path):
    _, calls, y = recorded(1)
    with pytest.raises(ValueError, match=r"modules= folds the nodes of an \.html page"):
        graph.draw(y, tmp_path / "g.dot", modules=calls)


@browser
def test_click_search_and_fold_in_a_browser(tmp_path):
    model, calls, y = recorded(60)
    path = tmp_path / "graph.html"
    graph.draw(y, path, params=dict(model.named_parameters()), modules=calls)
    said = in_browser(
        path,
        tmp_path,
        """
        const shown = () => view.picture.boxes.length;
        say(view.graph.N); say(shown());
        document.getElementById('close').click(); say(shown());
        document.getElementById('open').click(); say(shown());
        type('42.up.weight'); say(Number(document.body.dataset.found));
        enter(); say(view.graph.label(view.chosen));
        const about = document.getElementById('about');
        say(about.style.display); say(about.textContent.includes('float32[4, 4]'));
        type('linearbackward0'); say(Number(document.body.dataset.found));
        enter(); const before = shown();
        about.querySelector('button').click(); say(before - shown());
        view.fit(); const group = view.picture.boxes.find((b) => view.graph.isGroup(b.t)).t;
        view.center(group); await frame(); click(...view.screen(group), 'canvas');
        say(before - shown());
        """,
    )
    nodes, shown, folded, unfolded, hits, name, display, shape, linears, less, again = said
    assert nodes == len(list(walk(y.grad_fn)))
    assert folded < 5 < shown < unfolded == nodes
    assert (hits, name, display, shape, linears) == (1, "42.up.weight", "block", True, 60)
    assert less > 0
    assert again == 0


@browser
def test_ten_thousand_nodes_are_quick(tmp_path):
    """The limit is a hundred times the usual time: a quadratic layout would exceed it."""
    y = torch.ones(2, requires_grad=True)
    for _ in range(5000):
        y = y.sin() + y
    graph.draw(y, tmp_path / "g.html")
    said = in_browser(
        tmp_path / "g.html",
        tmp_path,
        """
        const shown = () => view.picture.boxes.length;
        say(shown()); document.getElementById('open').click(); say(shown());
        say(Number(document.body.dataset.ms));
        """,
    )
    assert said[0] < 200
    assert said[1] == 10001
    assert said[2] < 30000
