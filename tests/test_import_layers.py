# SPDX-License-Identifier: BSD-3-Clause
"""The imports of python/cograd: modules form layers without cycles and respect privacy."""

import ast
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parent.parent / "python"
pytestmark = pytest.mark.skipif(not PYTHON.is_dir(), reason="python/ is not here: no checkout")

ROOT = "cograd"  # the public namespace: any module may use what a program may use


def find_modules(folder):
    """Returns dotted name -> (file, whether it is a package)."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if package else parts)] = (path, package)
    return found


def only_for_types(node):
    test = node.test if isinstance(node, ast.If) else None
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def import_nodes(node):
    """Yields import statements of modules and functions, except those for type checkers."""
    if only_for_types(node):
        for part in node.orelse:
            yield from import_nodes(part)
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield node
    for part in ast.iter_child_nodes(node):
        yield from import_nodes(part)


def named(node, module, package):
    """Returns the dotted names that an import statement may mean, as (longest, shorter) pairs."""
    if isinstance(node, ast.Import):
        return [(alias.name, alias.name.rpartition(".")[0]) for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + (1 if package else 0)]
        base = ".".join([*parts, node.module] if node.module else parts)
    return [(f"{base}.{alias.name}", base) for alias in node.names]


def ancestors(module):
    parts = module.split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts))}


def import_edges(modules):
    """Returns module -> {imported module: line}; packages that are imported on the way count."""
    edges = {}
    for module, (path, package) in modules.items():
        found = edges.setdefault(module, {})
        for node in import_nodes(ast.parse(path.read_text(encoding="utf-8"))):
            for names in named(node, module, package):
                target = next((name for name in names if name in modules), None)
                if target is None:
                    continue
                for name in {target, *(ancestors(target) - ancestors(module))}:
                    if name not in (module, ROOT):
                        found.setdefault(name, node.lineno)
    edges.pop(ROOT, None)
    return edges


def circles(edges):
    """Returns the groups of modules that reach each other."""
    reach = {}
    for start in edges:
        seen, todo = set(), [start]
        while todo:
            for target in edges.get(todo.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        reach[start] = seen
    groups = {frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in edges}
    return sorted(sorted(group) for group in groups if group)


def test_no_circular_imports():
    edges = import_edges(find_modules(PYTHON))
    assert len(edges) > 80
    text = [
        f"{a} (line {line}) imports {b}"
        for group in circles(edges)
        for a in group
        for b, line in edges[a].items()
        if b in group
    ]
    assert text == []


# A private module that another package uses, and the purpose.
FRIENDS = {
    ("cograd.ops", "cograd.utils.cpp_extension._load"): "load_library under its public name",
    ("cograd.testing._check.layouts", "cograd.autograd._gradcheck_run"): "the same base points",
}


def test_packages_keep_their_private_modules():
    """`cograd.x.y._z` belongs to `cograd.x`; `cograd._z` belongs to all."""
    used = set()
    for module, targets in import_edges(find_modules(PYTHON)).items():
        for target in targets:
            private = any(part.startswith("_") for part in target.split(".")[2:])
            if private and module.split(".")[1] != target.split(".")[1]:
                used.add((module, target))
    assert used == set(FRIENDS)


@pytest.mark.parametrize(
    ("files", "want"),
    [
        ({"a": "import cograd.b", "b": "import cograd"}, []),
        ({"a": "from cograd import b", "b": "def f():\n    from . import a"}, [["a", "b"]]),
        ({"a": "from .b import x", "b": "if TYPE_CHECKING:\n    from . import a"}, []),
        ({"a": "from .p.q import x", "p/__init__": "from . import r", "p/q": "",
          "p/r": "import cograd.a"}, [["a", "p", "p.r"]]),
        ({"a": "", "p/__init__": "from . import q", "p/q": "from .. import a"}, []),
        ({"p/__init__": "from .q import x", "p/q": "from .r import x", "p/r": "from . import q"},
         [["p.q", "p.r"]]),
    ],
    ids=["line", "in a function", "types", "through a package", "child", "in a package"],
)  # fmt: skip
def test_the_reader_finds_circles(tmp_path, files, want):
    for name, text in {"__init__": "", **files}.items():
        path = tmp_path / "cograd" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = circles(import_edges(find_modules(tmp_path)))
    assert found == [[f"cograd.{name}" for name in group] for group in want]
