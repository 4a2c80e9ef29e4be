# SPDX-License-Identifier: BSD-3-Clause
"""A Sphinx extension that writes a page for each operation, from the op table and op_notes.toml.

The notes do not repeat the declaration (arguments, dtypes, forms, derivatives, the formula in
NumPy's terms). They have what it cannot state: `math` (LaTeX), `gradient` (where it is not defined
and what is returned there: a sentence, a key of DEFINED, or "=abs" for the text of abs), `shape`,
`errors`, `source`, and an `example`, which tests/table/test_op_pages.py runs.
tests/table/test_gradient_notes.py runs backward to check the sentences and keys.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import tomllib

HERE = Path(__file__).resolve().parent
NOTES = HERE / "op_notes.toml"
CLASS_EXAMPLES = HERE / "class_examples.toml"
Record = dict[str, Any]

FAMILIES = {
    "elementwise": "Elementwise",
    "reduction": "Over dimensions",
    "contraction": "Products and convolutions",
    "decomposition": "Factorisations and systems",
    "shape": "Shapes, joined and split tensors",
    "view": "Views",
    "index": "Indices",
    "sorting": "Order",
    "creation": "New tensors",
    "cast": "Casts",
    "random": "Random numbers",
    "loss": "Losses",
    "other": "Others",
}
SHAPES = {
    "elementwise": "Tensor arguments are broadcast against each other; the result has their common "
    "shape.",
    "reduction": "Without `dim`, all elements are reduced; a reduced `dim` is removed, or "
    "stays with size 1 under `keepdim=True`.",
    "view": "The result shares the memory of its input.",
}
DEFINED = {
    "linear": "Linear: defined everywhere.",
    "polynomial": "A polynomial of the inputs: defined everywhere.",
    "smooth": "Smooth: defined everywhere.",
    "real": "Smooth: defined everywhere on the real line.",
    "random": "It is 0 everywhere: random numbers count as constants.",
}
KINDS = {
    "Tensor": "Tensor",
    "TensorOrScalar": "Tensor or number",
    "Tensors": "sequence of Tensors",
    "Scalar": "number",
    "Int": "int",
    "Double": "float",
    "Bool": "bool",
    "Dim": "int",
    "Ints": "int or sequence of ints",
    "Dims": "int or sequence of ints",
    "Shape": "sequence of ints",
    "DType": "dtype",
    "Device": "device or str",
    "String": "str",
    "Generator": "Generator",
}
GROUPS = [
    ("floating", ["float16", "bfloat16", "float32", "float64"]),
    ("complex", ["complex64", "complex128"]),
]
ERRORS = [
    ({"Tensor", "Tensors", "TensorOrScalar"}, "`TypeError`: an argument's type is not listed."),
    ({"Dim", "Dims"}, "`IndexError`: a dim outside of the input's dims."),
]


def pages(table: list[Record]) -> dict[str, list[Record]]:
    """Returns the public records of each page, by the page's name."""
    found = defaultdict(list)
    for r in table:
        if not r["internal"]:
            found[("nn.functional." if r["namespace"] == "_nn" else "") + r["name"]].append(r)
    return dict(sorted(found.items()))


def title(name: str, records: list[Record]) -> str:
    """Returns the name of the op for users: cograd.add, or Tensor.add_ if it has no function."""
    method = all(r["method"] and not r["function"] for r in records) and "." not in name
    return f"Tensor.{name}" if method else f"cograd.{name}"


def signatures(name: str, r: Record) -> list[str]:
    """Returns the forms in which an op is called."""
    tail = ", ".join(part for part in r["signature"].split(", ")[1:])
    lines = []
    if r["function"] or r["namespace"]:
        out = ", *, out=None" if r["out"] and "*" not in r["signature"] else ""
        out = ", out=None" if r["out"] and not out else out
        lines.append(f"cograd.{name}({r['signature']}{out})")
    if r["method"]:
        lines.append(f"Tensor.{r['name']}({tail})")
    if r["inplace"]:
        lines.append(f"Tensor.{r['name']}_({tail})")
    return lines


def dtypes(r: Record) -> str:
    """Returns the dtypes of an op, with one word for each complete family."""
    left, words = list(r["dtypes"]), []
    for word, members in GROUPS:
        if all(m in left for m in members):
            words.append(f"{word} ({', '.join(members)})")
            left = [d for d in left if d not in members]
    return "; ".join([*([", ".join(left)] if left else []), *words]) or "any"


def arguments(records: list[Record]) -> list[str]:
    """Returns a table of arguments for each set of names; forms with equal names share one."""
    tables: dict[tuple[str, ...], list[list[Record]]] = {}
    for r in records:
        if r["args"]:
            tables.setdefault(tuple(a["name"] for a in r["args"]), []).append(r["args"])
    head = ["| argument | type | default |", "|---|---|---|"]
    return [
        "\n".join([*head, *(_row([args[i] for args in forms]) for i in range(len(names)))])
        for names, forms in tables.items()
    ]


def _row(forms: list[Record]) -> str:
    """Returns the row of an argument that several forms of an op have."""
    kinds, first = [], forms[0]
    for a in forms:
        kind = a["type"] or KINDS.get(a["kind"], a["kind"])
        kinds.append(
            kind + (" or None" if a["nullable"] and a["default"] in (None, "None") else "")
        )
    note = ", keyword only" if first["keyword_only"] else ""
    return (
        f"| `{first['name']}` | {' or '.join(dict.fromkeys(kinds))}{note} "
        f"| {_code(first['default'])} |"
    )


def _code(text: str | None) -> str:
    return f"`{text}`" if text is not None else ""


def defined(records: list[Record], note: str | None) -> str:
    """Returns the note, or the key that follows from the declaration of the op's tangents."""
    rules = {r["tangent"] for r in records if r["differentiable"]}
    if note is None and rules <= {"linear", "multilinear"}:
        return "linear" if rules == {"linear"} else "polynomial"
    return note or ""


def gradient(records: list[Record], notes: Record) -> str:
    """Returns the sentences about derivatives."""
    if not any(r["differentiable"] for r in records):
        return "None: the result does not require a gradient."
    constants = sorted({c for r in records for c in r["constants"]})
    text = "Reverse and forward mode work to any order."
    if constants:
        text += f" There is none for {', '.join(_code(c) for c in constants)}."
    if any(r["holomorphic"] and "complex64" in r["dtypes"] for r in records):
        text += " Holomorphic for complex numbers."
    note = defined(records, notes.get("gradient"))
    return f"{text} {DEFINED.get(note, note)}".strip()


def errors(records: list[Record], notes: Record) -> list[str]:
    """Returns the errors that the op raises."""
    kinds = {a["kind"] for r in records for a in r["args"]}
    found = [text for some, text in ERRORS if kinds & some]
    if any(r["kind"] == "elementwise" and len(r["args"]) > 1 for r in records):
        found.append("`RuntimeError`: shapes that can't be broadcast.")
    if any(r["dtypes"] for r in records):
        found.append("`NotImplementedError` or `RuntimeError`: a dtype that is not listed.")
    return found + ([notes["errors"]] if "errors" in notes else [])


def page(name: str, records: list[Record], notes: Record) -> str:
    """Returns the text of an op's page."""
    first = records[0]
    # The search finds an orphan, and it is not in every page's sidebar, whose cost is quadratic.
    lines = ["---", "orphan: true", "---", "", f"# {title(name, records)}", ""]
    lines += ["```{code-block} python"]
    lines += dict.fromkeys(s for r in records for s in signatures(name, r))
    lines += ["```", ""]
    lines += [d + "\n" for d in dict.fromkeys(r["doc"] for r in records)]
    if "math" in notes:
        lines += ["$$", notes["math"].strip(), "$$", ""]
    refs = dict.fromkeys(r["ref"] for r in records if r["ref"] and len(r["ref"]) < 160)
    if refs:
        lines += ["In NumPy's terms: " + "; ".join(f"`{ref}`" for ref in refs) + ".", ""]
    lines += [t + "\n" for t in arguments(records)]
    tensors = [a for a in first["args"] if a["kind"] in ("Tensor", "TensorOrScalar")]
    shape = notes.get("shape") or SHAPES.get(first["kind"])
    if shape is SHAPES["elementwise"] and len(tensors) == 1:
        shape = "The result has the input's shape."
    facts = {
        "Shapes": shape,
        "Dtypes": dtypes(first),
        "Gradient": gradient(records, notes),
        "Result": f"a named tuple ({first['returns']})" if first["returns"] else None,
        "Source": notes.get("source"),
    }
    for label, text in facts.items():
        if text:
            lines += [f"{label}\n: {text}\n"]
    lines += ["Errors\n: " + "\n  ".join(f"- {e}" for e in errors(records, notes)) + "\n"]
    if "example" in notes:
        lines += ["Example", "", "```{code-block} python", notes["example"].strip(), "```", ""]
    return "\n".join(lines)


def index(found: dict[str, list[Record]]) -> str:
    """Returns the page that lists all of them by family."""
    lines = ["# Operations", "", "Generated from the op table. Each operation has a page.", ""]
    for kind, family in FAMILIES.items():
        members = {n: rs for n, rs in found.items() if rs[0]["kind"] == kind}
        if members:
            lines += [f"## {family}", ""]
        for name, records in members.items():
            lines += [f"[`{title(name, records)}`](ops/{name}.md)", f": {records[0]['doc']}", ""]
    return "\n".join(lines)


def notes(path: Path = NOTES) -> dict[str, Record]:
    """Returns the hand-written notes, by the name of the page or class."""
    return tomllib.loads(path.read_text())


def resolved(by_hand: dict[str, Record]) -> dict[str, Record]:
    """Returns the notes with "=abs" replaced by the gradient text of abs."""
    found = {}
    for name, note in by_hand.items():
        same = note.get("gradient", "")
        found[name] = dict(note)
        if same.startswith("="):
            found[name]["gradient"] = by_hand[same[1:]]["gradient"]
    return found


def write(folder: Path) -> None:
    """Writes the pages that changed into docs/api, and removes those of ops that are gone."""
    import cograd

    found, by_hand = pages(cograd._C._op_table()), resolved(notes())
    texts = {f"ops/{n}.md": page(n, rs, by_hand.get(n, {})) for n, rs in found.items()}
    texts["ops.md"] = index(found)
    (folder / "ops").mkdir(parents=True, exist_ok=True)
    for old in (folder / "ops").glob("*.md"):
        if f"ops/{old.name}" not in texts:
            old.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def names_in_examples() -> dict[str, Any]:
    """Returns the names that an example may use without an import."""
    import cograd

    names = {"cograd": cograd, "nn": cograd.nn, "optim": cograd.optim, "D": cograd.distributions}
    return {**names, "F": cograd.nn.functional}


def named(name: str) -> Any:
    """Returns the object of a name below cograd; imports modules on the way."""
    *path, last = name.split(".")
    return getattr(importlib.import_module(".".join(["cograd", *path])), last)


def class_examples() -> dict[int, list[str]]:
    """Returns the example lines that end an object's docstring, by the object's id."""
    return {
        id(named(name)): ["", *note["example"].splitlines(), ""]
        for name, note in notes(CLASS_EXAMPLES).items()
    }


def setup(app: Any) -> dict[str, bool]:
    """Registers with Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "api"))
    examples = class_examples()

    def add_example(
        app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
    ) -> None:
        lines += examples.get(id(obj), [])

    app.connect("autodoc-process-docstring", add_example, priority=800)
    return {"parallel_read_safe": True}
