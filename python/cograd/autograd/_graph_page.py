# SPDX-License-Identifier: BSD-3-Clause
"""Renders the graph as a self-contained page: pan, zoom, search, nodes that fold by module."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from cograd import _C
from cograd._C import Node, Tensor

__all__ = ["ModuleCalls", "fill", "pack", "page", "record_modules"]

# Maximum number of items in a group; larger groups are split into runs of neighbours.
_MOST = 48
_Ints = npt.NDArray[np.int64]


class ModuleCalls(list[tuple[str, int, int]]):
    """Calls of modules, recorded by ``record_modules``; ``draw`` folds nodes by them.

    A list of (path, first node, end); node numbers count the nodes of the recording thread.
    """


class record_modules:
    """Context manager that records which nodes each submodule of ``module`` creates.

    Returns the argument for ``draw(..., modules=...)``, whose page folds nodes by module. Costs two
    hooks for each call of a submodule, nothing for each op.

    Args:
        module: the nn.Module that is called in the block, on this thread.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.calls = ModuleCalls()
        self._open: list[tuple[str, int]] = []
        self._handles: list[Any] = []

    def __enter__(self) -> ModuleCalls:
        for path, child in self.module.named_modules():
            name = path or type(self.module).__name__
            self._handles.append(child.register_forward_pre_hook(self._begin(name)))
            self._handles.append(child.register_forward_hook(self._end, always_call=True))
        return self.calls

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._open.clear()

    def _begin(self, name: str) -> Callable[..., None]:
        def begin(module: Any, args: Any) -> None:
            self._open.append((name, _C._next_sequence()))

        return begin

    def _end(self, module: Any, args: Any, output: Any) -> None:
        if self._open:
            name, first = self._open.pop()
            self.calls.append((name, first, _C._next_sequence()))


class _Groups:
    """The tree of groups that fold; group 0 is the whole graph."""

    def __init__(self) -> None:
        self.names = ["graph"]
        self.parents = [-1]

    def add(self, name: str, parent: int) -> int:
        self.names.append(name)
        self.parents.append(parent)
        return len(self.names) - 1


def _by_module(groups: _Groups, calls: ModuleCalls, sequence: npt.NDArray[np.float64]) -> _Ints:
    """Returns the innermost call that recorded each node; adds the calls that recorded any."""
    group = np.zeros(len(sequence), np.int64)
    order = np.argsort(sequence, kind="stable")
    ranked = sequence[order]
    counts: dict[str, int] = {}
    open_calls: list[tuple[int, int]] = []
    for name, first, end in sorted(calls, key=lambda c: (c[1], -c[2])):
        low, high = np.searchsorted(ranked, [first, end])
        if low == high:
            continue
        while open_calls and open_calls[-1][0] < end:
            open_calls.pop()
        counts[name] = counts.get(name, 0) + 1
        label = name if counts[name] == 1 else f"{name} ({counts[name]})"
        made = groups.add(label, open_calls[-1][1] if open_calls else 0)
        open_calls.append((end, made))
        group[order[low:high]] = made
    return group


def _split(groups: _Groups, group: _Ints, sequence: npt.NDArray[np.float64]) -> _Ints:
    """Splits groups with too many nodes into runs of neighbours, in the order of recording."""
    order = np.lexsort((sequence, group))
    starts = np.flatnonzero(np.r_[True, np.diff(group[order]) != 0])
    for low, high in zip(starts, np.r_[starts[1:], len(order)], strict=True):
        members = order[low:high]
        if len(members) > _MOST:
            _split_run(groups, group, members, int(group[members[0]]), int(low))
    return group


def _split_run(groups: _Groups, group: _Ints, members: _Ints, parent: int, offset: int) -> None:
    step = _MOST
    while step * _MOST < len(members):
        step *= _MOST
    for low in range(0, len(members), step):
        run = members[low : low + step]
        made = groups.add(f"nodes {offset + low} to {offset + low + len(run) - 1}", parent)
        group[run] = made
        if len(run) > _MOST:
            _split_run(groups, group, run, made, offset + low)


def _read_order(raw: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Returns each node's creation number, or for a leaf that of the first node that reads it."""
    made = np.frombuffer(raw["sequence"])
    below, above = np.frombuffer(raw["edges"], np.int32).reshape(-1, 2).T
    first = np.full(len(made), np.inf)
    np.minimum.at(first, below, made[above])
    return np.where(made < 2.0**63, made, np.where(np.isinf(first), 0, first))


def pack(values: npt.NDArray[Any] | bytes) -> str:
    """Deflates numbers and encodes them as text for a page."""
    raw = values if isinstance(values, bytes) else values.tobytes()
    return base64.b64encode(zlib.compress(raw, 6)).decode()


def fill(name: str, data: dict[str, Any]) -> str:
    """Returns the page ``name`` with its data and the script that pages share.

    "<" is escaped so that no text in the data can end the script element.
    """
    files = resources.files("cograd.autograd")
    html = files.joinpath(name).read_text("utf-8")
    html = html.replace("/*SHARED*/", files.joinpath("_page.js").read_text("utf-8"))
    text = json.dumps(data, separators=(",", ":"))
    return html.replace("/*DATA*/null", text.replace("<", "\\u003c"))


def page(
    nodes: list[Node], params: dict[str, Tensor] | None, modules: ModuleCalls | None, title: str
) -> str:
    """Returns the HTML of the graph below ``nodes``."""
    raw = _C._graph_data(nodes)
    sequence = _read_order(raw)
    groups = _Groups()
    group = _by_module(groups, modules or ModuleCalls(), sequence)
    names = {id(t): name for name, t in (params or {}).items()}
    leaves = {i: names[id(t)] for i, t in raw["leaves"] if id(t) in names}
    group = _split(groups, group, sequence)
    data = {
        "title": title,
        "names": raw["names"],
        "outputs": [text.replace("\n", ", ") for text in raw["outputs"]],
        "places": raw["places"],
        "leaves": leaves,
        "leafKind": raw["names"].index("AccumulateGrad")
        if "AccumulateGrad" in raw["names"]
        else -1,
        "groupNames": groups.names,
        "groupParents": groups.parents,
        "name": pack(raw["name"]),
        "output": pack(raw["output"]),
        "place": pack(raw["place"]),
        "saved": pack(raw["saved"]),
        "ns": pack(raw["ns"]),
        "sequence": pack(sequence),
        "edges": pack(raw["edges"]),
        "group": pack(group.astype(np.int32)),
    }
    return fill("_graph_page.html", data)
