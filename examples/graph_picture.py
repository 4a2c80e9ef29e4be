# SPDX-License-Identifier: BSD-3-Clause
"""Draws the graph behind a tensor: which nodes a backward will visit, and in which order.

The program reads the graph through `grad_fn.next_functions`, computes a simple layered layout, and
draws it with matplotlib.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Box:
    """Holds a node of the picture."""

    title: str
    detail: str
    kind: str
    depth: int = 0
    x: float = 0.0
    next: list["Box"] = field(default_factory=list)


def read_graph(tensor: Any, names: Any) -> Any:
    """Returns the nodes behind `tensor`, in the order of a depth-first walk.

    Args:
        tensor: anything with a `grad_fn`.
        names: pairs (name, parameter); leaves found among them are shown by name and shape.
    """
    by_parameter = {id(p): (name, p) for name, p in names}
    boxes, todo = {}, [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node in boxes:
            continue
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            name, p = by_parameter.get(id(leaf), ("leaf", leaf))
            boxes[node] = Box(name, " x ".join(map(str, p.shape)), "leaf")
            continue
        title = node.name().removesuffix("0").removesuffix("Backward")
        own = hasattr(node, "saved_tensors")  # only the ctx of a custom Function has it
        boxes[node] = Box(title, "", "user" if own else "op")
        todo += [n for n, _ in reversed(node.next_functions) if n is not None]
    for node, box in boxes.items():
        box.next = [boxes[n] for n, _ in node.next_functions if n is not None]
    return list(boxes.values())


def layout(boxes: Any) -> Any:
    """Gives every box a depth (its longest way from the root) and an x within its row."""
    changed = True
    while changed:
        changed = False
        for box in boxes:
            for below in box.next:
                if below.depth <= box.depth:
                    below.depth = box.depth + 1
                    changed = True
    rows: dict[int, list[Box]] = {}
    for box in boxes:
        rows.setdefault(box.depth, []).append(box)
    heights: dict[int, int] = {}
    for depth in sorted(rows, reverse=True):
        for box in rows[depth]:
            heights[id(box)] = 1 + max((heights[id(b)] for b in box.next), default=0)
    users = {id(box): [u for u in boxes if box in u.next] for box in boxes}
    for depth in sorted(rows):
        row = rows[depth]
        wished = {}
        for box in row:
            wishes = [u.x + _offset(u, box, heights) for u in users[id(box)]]
            wished[id(box)] = sum(wishes) / len(wishes) if wishes else 0.0
        row.sort(key=lambda b: wished[id(b)])
        for box, place in zip(row, _spread([wished[id(b)] for b in row], 1.0), strict=True):
            box.x = place


def _offset(user: Any, box: Any, heights: Any) -> Any:
    """Returns the place of `box` below `user`: the tallest child is straight below."""
    spine = max(user.next, key=lambda b: heights[id(b)])
    if box is spine and (len(user.next) == 1 or box.next):
        return 0.0
    if not spine.next:
        return user.next.index(box) - (len(user.next) - 1) / 2
    return 1.0 * (user.next.index(box) - user.next.index(spine))


def _spread(wished: Any, gap: float) -> Any:
    """Moves sorted places apart to at least `gap` and keeps their centre."""
    places = list(wished)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    shift = sum(w - p for w, p in zip(wished, places, strict=True)) / len(places)
    return [p + shift for p in places]


COLORS = {"op": "#dfe8f2", "user": "#f6c393", "leaf": "#dcecd8"}


def draw_graph(ax: Any, tensor: Any, names: Any) -> Any:
    """Draws the graph behind `tensor` into a matplotlib axes and returns its boxes."""
    boxes = read_graph(tensor, names)
    layout(boxes)
    artists = {}
    for box in boxes:
        artists[id(box)] = ax.text(
            box.x,
            -box.depth,
            box.title + (f"\n{box.detail}" if box.detail else ""),
            ha="center",
            va="center",
            fontsize=9.5,
            bbox={
                "boxstyle": "round,pad=0.38",
                "fc": COLORS[box.kind],
                "ec": "#4a4a4a",
                "lw": 0.8,
            },
            zorder=3,
        )
    xs = [b.x for b in boxes]
    ax.set_xlim(min(xs) - 0.7, max(xs) + 0.7)
    ax.set_ylim(-max(b.depth for b in boxes) - 0.5, 0.5)
    ax.axis("off")
    ax.figure.canvas.draw()  # sizes the boxes, so that arrows can end at their edges
    for box in boxes:
        for below in box.next:
            ax.annotate(
                "",
                (below.x, -below.depth),
                (box.x, -box.depth),
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": "#4a4a4a",
                    "lw": 1.0,
                    "patchA": artists[id(box)].get_bbox_patch(),
                    "patchB": artists[id(below)].get_bbox_patch(),
                    "shrinkA": 1,
                    "shrinkB": 1,
                },
            )
    return boxes
