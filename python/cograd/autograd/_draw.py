# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of a recorded graph in HTML, Graphviz and Mermaid."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Iterable
from typing import Any, overload

from cograd import _C
from cograd._base import notebook
from cograd._C import Node, Tensor
from cograd.autograd._graph_page import ModuleCalls, page

__all__ = ["Drawing", "draw", "to_dot", "to_mermaid"]

_PICTURES = "svg png pdf jpg jpeg gif webp ps eps".split()  # the formats of Graphviz


def _human(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""


def _roots(value: Tensor | Node | Iterable[Any]) -> list[Node]:
    if callable(value) and not isinstance(value, (Tensor, Node)):  # a Sequential is iterable, too
        raise RuntimeError(
            f"expected tensors with a grad_fn, or nodes, to draw, got {type(value).__name__}: "
            "draw what it returns"
        )
    if not isinstance(value, (Tensor, Node, Iterable)):
        raise TypeError(
            f"expected tensors with a grad_fn, or nodes, to draw, got {type(value).__name__} "
            f"{value!r}"
        )
    items = [value] if isinstance(value, (Tensor, Node)) else list(value)
    nodes = []
    for item in items:
        node = item.grad_fn if isinstance(item, Tensor) else item
        if not isinstance(node, Node):
            raise RuntimeError(
                "expected tensors with a grad_fn, or nodes, to draw, got "
                + ("a tensor without history" if isinstance(item, Tensor) else repr(item))
            )
        nodes.append(node)
    return nodes


def _ints(values: bytes) -> list[int]:
    return memoryview(values).cast("i").tolist()


def _label(name: str, outputs: str, saved: float, ns: float) -> list[str]:
    """Returns the label: name, shapes and dtypes of the outputs, saved bytes, time."""
    lines = [name]
    for output in outputs.split("\n"):
        dtype, _, shape = output.partition("[")
        lines.append(f"[{shape} {dtype}")
    if saved:
        lines.append(f"saves {_human(int(saved))}")
    if ns >= 0:
        lines.append(f"{ns / 1e3:.1f} us")
    return lines


def _names(params: dict[str, Tensor] | None) -> dict[int, str]:
    return {id(t): name for name, t in (params or {}).items()}


def _describe(
    value: Tensor | Node | Iterable[Any], params: dict[str, Tensor] | None
) -> tuple[list[tuple[str, list[str], bool]], list[tuple[str, str, int]]]:
    """Returns nodes (identifier, label lines, is a leaf) and edges (from, to, output number)."""
    raw = _C._graph_data(_roots(value))
    names = _names(params)
    leaves = {i: names.get(id(t)) for i, t in raw["leaves"]}
    saved, ns = (memoryview(raw[key]).cast("d") for key in ("saved", "ns"))
    boxes, edges = [], []
    for i, (name, output) in enumerate(zip(_ints(raw["name"]), _ints(raw["output"]), strict=True)):
        lines = _label(raw["names"][name], raw["outputs"][output], saved[i], ns[i])
        lines[0] = leaves.get(i) or lines[0]
        boxes.append((f"n{i}", lines, i in leaves))
    ends = iter(_ints(raw["edges"]))
    for below, above, number in zip(ends, ends, _ints(raw["edge_outputs"]), strict=True):
        edges.append((f"n{below}", f"n{above}", number))
    return boxes, edges


def to_dot(value: Tensor | Node | Iterable[Any], params: dict[str, Tensor] | None = None) -> str:
    """Returns the graph of ``value`` in Graphviz' language.

    Args:
        value: a tensor with a grad_fn, a node, or several of them.
        params: names for leaves, for example ``dict(module.named_parameters())``.

    Nodes show the shape and dtype of their outputs, the bytes they save for backward and, after a
    backward under ``autograd.profiler.profile``, the time they took.

    Raises:
        RuntimeError: a tensor has no history.
    """
    boxes, edges = _describe(value, params)
    lines = ["digraph graph_of_ops {", '  node [shape=box, fontname="monospace", fontsize=10];']
    for name, label, leaf in boxes:
        text = "\\n".join(x.replace("\\", "\\\\").replace('"', '\\"') for x in label)
        style = ", style=filled, fillcolor=lightblue" if leaf else ""
        lines.append(f'  {name} [label="{text}"{style}];')
    for below, above, number in edges:
        extra = f' [label="{number}"]' if number else ""
        lines.append(f"  {below} -> {above}{extra};")
    return "\n".join([*lines, "}"]) + "\n"


def to_mermaid(
    value: Tensor | Node | Iterable[Any], params: dict[str, Tensor] | None = None
) -> str:
    """Returns the graph of ``value`` as a Mermaid flowchart, which many Markdown viewers draw.

    Args:
        value: a tensor, a node, or several; as for :func:`to_dot`.
        params: names for leaves.
    """
    boxes, edges = _describe(value, params)
    lines = ["flowchart TD"]
    for name, label, leaf in boxes:
        text = "<br/>".join(x.replace('"', "#quot;") for x in label)
        lines.append(f'  {name}(["{text}"])' if leaf else f'  {name}["{text}"]')
    for below, above, number in edges:
        lines.append(f"  {below} -->|{number}| {above}" if number else f"  {below} --> {above}")
    return "\n".join(lines) + "\n"


class Drawing:
    """A page that shows a graph; a notebook shows it below the cell.

    Attributes:
        html: the page, as ``draw(value, "graph.html")`` writes it.
    """

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return notebook.frame(self.html)

    def __repr__(self) -> str:
        return "<a drawing, which notebooks show; draw(value, 'graph.html') writes it>"


@overload
def draw(
    value: Tensor | Node | Iterable[Any],
    path: None = None,
    params: dict[str, Tensor] | None = None,
    modules: ModuleCalls | None = None,
) -> Drawing: ...
@overload
def draw(
    value: Tensor | Node | Iterable[Any],
    path: str | os.PathLike[str],
    params: dict[str, Tensor] | None = None,
    modules: ModuleCalls | None = None,
) -> str: ...
def draw(
    value: Tensor | Node | Iterable[Any],
    path: str | os.PathLike[str] | None = None,
    params: dict[str, Tensor] | None = None,
    modules: ModuleCalls | None = None,
) -> str | Drawing:
    """Writes a picture of the graph and returns the file's path; without a path, returns a Drawing.

    ``.html`` is a self-contained page: pan, zoom, search, and nodes that fold by module if
    ``modules`` (from :class:`record_modules`) is given, else by runs of neighbours. It supports
    graphs of a million nodes. Under anomaly mode a node shows the line that created it. Without
    ``path``, a notebook shows this page below the cell.

    ``.dot``/``.gv`` and ``.mmd``/``.md`` are text and always work. Other suffixes (svg, png, pdf)
    need Graphviz: the ``dot`` program or the ``graphviz`` package that calls it. Without it, and
    for a suffix that is not a picture format, it warns and writes a Mermaid file beside the
    requested name.
    """
    if path is None:
        return Drawing(page(_roots(value), params, modules, "graph"))
    target = os.fspath(path)
    suffix = os.path.splitext(target)[1].lower().lstrip(".")
    if suffix in ("html", "htm"):
        title = os.path.splitext(os.path.basename(target))[0]
        return _write(target, page(_roots(value), params, modules, title))
    if modules is not None:
        raise ValueError(f"draw(): modules= folds the nodes of an .html page, got {target!r}")
    if suffix in ("mmd", "md"):
        text = to_mermaid(value, params)
        return _write(target, f"```mermaid\n{text}```\n" if suffix == "md" else text)
    if suffix in ("dot", "gv", ""):
        return _write(target, to_dot(value, params))
    dot = shutil.which("dot")
    if dot is None or suffix not in _PICTURES:
        instead = os.path.splitext(target)[0] + ".mmd"
        known = ", ".join(f".{name}" for name in _PICTURES)
        reason = (
            f"{target!r} needs Graphviz' program dot, which is not on the path"
            if suffix in _PICTURES
            else f".{suffix} is no picture ({known}) or text (.html, .dot, .mmd, .md)"
        )
        warnings.warn(f"draw(): {reason}; wrote {instead!r} instead", stacklevel=2)
        return _write(instead, to_mermaid(value, params))
    subprocess.run(
        [dot, f"-T{suffix}", "-o", target], input=to_dot(value, params), text=True, check=True
    )
    return target


def _write(path: str, text: str) -> str:
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path
