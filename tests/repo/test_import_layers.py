# SPDX-License-Identifier: BSD-3-Clause
"""The imports of python/cograd: modules form layers without cycles and respect privacy."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2] / "python"
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


def module_named(node):
    """Returns the module that a call `import_module("...")` names, or None."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    function = getattr(node.func, "id", getattr(node.func, "attr", ""))
    name = getattr(node.args[0], "value", None)
    return name if function == "import_module" and isinstance(name, str) else None


def import_nodes(node):
    """Yields imports of modules and functions, by name too, except those for type checkers."""
    if only_for_types(node):
        for part in node.orelse:
            yield from import_nodes(part)
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)) or module_named(node):
        yield node
    for part in ast.iter_child_nodes(node):
        yield from import_nodes(part)


def named(node, module, package):
    """Returns the dotted names that an import may mean, as (longest, shorter) pairs."""
    if isinstance(node, ast.Call):
        return [(module_named(node), "")]
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


def cycles(edges):
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
        for group in cycles(edges)
        for a in group
        for b, line in edges[a].items()
        if b in group
    ]
    assert text == []


# A private module that another package uses, and the purpose.
FRIENDS = {
    ("cograd.ops", "cograd.utils.cpp_extension._load"): "load_library under its public name",
    ("cograd.fx._pytree", "cograd.utils._pytree"): "torch's trees, which generated code names",
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


MAX_FILES = 40
# Public paths of torch, a module each.
LARGE = {"distributions"}


def test_directories_are_small_and_described():
    root = PYTHON / ROOT
    page = (PYTHON.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Directories of python/cograd")[2]
    described = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.M)
        for name in re.findall(r"`([^`]+)`", row)
    }
    files = Counter(p.parent.relative_to(root).as_posix() for p in root.rglob("*.py"))
    assert set(files) == described
    assert {name for name, count in files.items() if count > MAX_FILES} == LARGE


BINDINGS = PYTHON.parent / "csrc"
# `import("x")` of pybind11 or of C, and the attribute that is taken from it.
BY_NAME = re.compile(
    r'(?:module_::import|PyImport_ImportModule)\(\s*"([\w.]+)"\s*\)(?:\s*\.attr\(\s*"(\w+)"\s*\))?'
)
# A private module of a package that the bindings use, and what for.
BINDINGS_FRIENDS = {
    "cograd.autograd._function_samples": "runs a Function's rules sample by sample",
}


def imports_by_name(folder):
    """Yields (file, line, module, attribute or "") of imports by name in C++."""
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".cpp", ".h")):
        text = path.read_text(encoding="utf-8")
        for found in BY_NAME.finditer(text):
            yield path.name, text.count("\n", 0, found.start()) + 1, found[1], found[2] or ""


def defines(path, name):
    """Returns whether a module defines or imports ``name`` at its top level."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        given = {alias.asname or alias.name for alias in getattr(node, "names", [])}
        targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
        if name in {getattr(node, "name", ""), *given, *(getattr(t, "id", "") for t in targets)}:
            return True
    return False


def wrong_names(folder, modules):
    """Returns what imports by name in C++ get wrong: no such module or attribute, or not theirs."""
    wrong = []
    for file, line, module, attribute in imports_by_name(folder):
        if module.split(".")[0] != ROOT or module == f"{ROOT}._C":
            continue
        place = f"{file}:{line} imports {module}"
        if module not in modules:
            wrong.append(f"{place}, which does not exist")
        elif attribute and not defines(modules[module][0], attribute):
            wrong.append(f"{place}, which has no {attribute}")
        elif any(part[0] == "_" for part in module.split(".")[2:]):
            wrong += [] if module in BINDINGS_FRIENDS else [f"{place}, which is private"]
    return wrong


@pytest.mark.skipif(not BINDINGS.is_dir(), reason="csrc/ is not here: no checkout")
def test_bindings_import_what_exists():
    named_modules = {module for _, _, module, _ in imports_by_name(BINDINGS)}
    assert {"cograd.overrides", "cograd.autograd.function", *BINDINGS_FRIENDS} <= named_modules
    assert wrong_names(BINDINGS, find_modules(PYTHON)) == []


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('py::module_::import("cograd.a").attr("f")', []),
        (
            'py::module_::import("cograd.a")\n  .attr("g")',
            ["x.cpp:1 imports cograd.a, which has no g"],
        ),
        ('PyImport_ImportModule("cograd.b")', ["x.cpp:1 imports cograd.b, which does not exist"]),
        ('\nmodule_::import(\n  "cograd.p._q")', ["x.cpp:2 imports cograd.p._q, which is private"]),
        ('py::module_::import("atexit").attr("register")', []),
    ],
    ids=["right", "attribute", "module", "private", "foreign"],
)
def test_the_reader_finds_wrong_names(tmp_path, text, want):
    for name, content in {"a": "def f(): pass", "p/__init__": "", "p/_q": ""}.items():
        path = tmp_path / "cograd" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "x.cpp").write_text(text)
    assert wrong_names(tmp_path, find_modules(tmp_path)) == want


@pytest.mark.parametrize(
    ("files", "want"),
    [
        ({"a": "import cograd.b", "b": "import cograd"}, []),
        ({"a": "from cograd import b", "b": "def f():\n    from . import a"}, [["a", "b"]]),
        ({"a": "from .b import x", "b": "if TYPE_CHECKING:\n    from . import a"}, []),
        ({"a": "from .p.q import x", "p/__init__": "from . import r", "p/q": "",
          "p/r": "import cograd.a"}, [["a", "p", "p.r"]]),
        ({"a": "", "p/__init__": "from . import q", "p/q": "from .. import a"}, []),
        ({"a": "def f():\n    import_module('cograd.b')", "b": "import cograd.a"}, [["a", "b"]]),
        ({"p/__init__": "from .q import x", "p/q": "from .r import x", "p/r": "from . import q"},
         [["p.q", "p.r"]]),
    ],
    ids=["line", "in a function", "types", "through a package", "child", "by name", "in a package"],
)  # fmt: skip
def test_the_reader_finds_cycles(tmp_path, files, want):
    for name, text in {"__init__": "", **files}.items():
        path = tmp_path / "cograd" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = cycles(import_edges(find_modules(tmp_path)))
    assert found == [[f"cograd.{name}" for name in group] for group in want]
