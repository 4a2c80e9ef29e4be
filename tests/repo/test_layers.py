# SPDX-License-Identifier: BSD-3-Clause
"""The layers of the architecture: a directory of csrc/ includes only lower ones."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
# From bottom to top. kernels are beside tensor: they may use its threads, but never its Tensor.
LAYERS = ["include", "tensor", "kernels", "autograd", "transforms", "ops", "api", "python"]
# libcograd_cuda.so, which libcograd.so loads: it uses these, and nothing uses it.
SEPARATE = {"cuda": ["include", "tensor", "kernels"]}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
PYTHON_HEADER = re.compile(r"^(Python\.h|pybind11/.*|numpy/.*|frameobject\.h|structmember\.h)$")

pytestmark = pytest.mark.skipif(not CSRC.is_dir(), reason="not run from a source checkout")


def sources():
    return sorted(p for p in CSRC.rglob("*") if p.suffix in {".h", ".cpp", ".def", ".inc"})


def layer_of(path):
    return path.relative_to(CSRC).parts[0]


def included_layer(name, quote, source):
    """Returns the layer that an include names, or None for a system header."""
    if name.startswith("cograd/"):
        return "include"
    first = name.split("/")[0]
    if first in [*LAYERS, *SEPARATE] and (CSRC / name).exists():
        return first
    if quote == '"' and (source.parent / name).exists():
        return layer_of(source)
    return None


def below(layer):
    """Returns the layers that a layer may use besides itself."""
    return SEPARATE[layer] if layer in SEPARATE else LAYERS[: LAYERS.index(layer)]


def violations(source, text):
    """Yields a line for each include of `source` that points upwards or outside."""
    layer = layer_of(source)
    for quote, name in INCLUDE.findall(text):
        if PYTHON_HEADER.match(name):
            # Public headers for authors of pybind11 modules.
            if layer != "python" and not (layer == "include" and source.name == "python.h"):
                yield f"{source}: <{name}> belongs in csrc/python only"
            continue
        target = included_layer(name, quote, source)
        if target is None:
            if quote == '"':
                yield f'{source}: "{name}" names no file of the project'
        elif target != layer and target not in below(layer):
            yield f"{source}: {layer} must not use {target} ({name})"


def test_includes_point_downwards():
    found = [v for s in sources() for v in violations(s, s.read_text())]
    assert not found, "\n".join(found)


def test_kernels_know_no_tensor():
    """Kernels see pointers and strides; of csrc/tensor they may use only threads and memory."""
    allowed = {"tensor/alloc.h", "tensor/threads.h", "tensor/thread_locals.h", "tensor/dims.h"}
    allowed |= {"tensor/device.h", "tensor/slot.h"}
    found = []
    for source in sources():
        if layer_of(source) == "kernels":
            for _, name in INCLUDE.findall(source.read_text()):
                if name.startswith("tensor/") and name not in allowed:
                    found.append(f"{source}: {name}")
    assert not found, "\n".join(found)


def test_folders_are_layers():
    folders = {p.name for p in CSRC.iterdir() if p.is_dir()}
    known = {*LAYERS, *SEPARATE}
    assert folders <= known, f"no layer is called {sorted(folders - known)}"


@pytest.mark.parametrize(
    ("where", "line", "complaint"),
    [
        ("kernels", '#include "autograd/graph/node.h"', "must not use autograd"),
        ("tensor", '#include "ops/declare/op.h"', "must not use ops"),
        ("ops", "#include <Python.h>", "csrc/python only"),
        ("python", '#include "cuda/driver/gpu.h"', "must not use cuda"),
        ("tensor", '#include "cuda/driver/gpu.h"', "must not use cuda"),
        ("cuda", '#include "ops/declare/op.h"', "must not use ops"),
        ("autograd", '#include "transforms/batch.h"', "must not use transforms"),
        ("autograd", "#include <pybind11/pybind11.h>", "csrc/python only"),
        ("ops", '#include "nowhere/at_all.h"', "names no file"),
    ],
)
def test_the_check_can_fail(where, line, complaint):
    (found,) = violations(CSRC / where / "x.cpp", line)
    assert complaint in found


def test_public_headers_need_nothing_private():
    found = []
    for header in (CSRC / "include" / "cograd").glob("*.h"):
        for quote, name in INCLUDE.findall(header.read_text()):
            if quote == '"' and not name.startswith("cograd/"):
                found.append(f"{header}: {name}")
    assert not found, "\n".join(found)


MAX_FILES = 40


def described_directories():
    """Returns the directories below csrc/ that docs/architecture.md has a line for."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found, part = set(), ""
    for line in text.splitlines():
        first = re.match(r"    csrc/(\w+)/(\w+)  +\w", line)
        further = re.match(r" {9,13}(\w+)  +\w", line)
        if first:
            part = first[1]
            found.add(f"{part}/{first[2]}")
        elif further and part:
            found.add(f"{part}/{further[1]}")
        elif not line:
            part = ""
    return found


def test_directories_are_small_and_described():
    folders = {p.parent for p in sources()}
    sizes = {p: sum(f.is_file() for f in p.iterdir()) for p in folders}
    assert {str(p): n for p, n in sizes.items() if n > MAX_FILES} == {}
    inner = {"/".join(p.relative_to(CSRC).parts) for p in folders}
    inner = {p for p in inner if p.count("/") == 1 and not p.startswith("include/")}
    assert inner == described_directories()


OTHERS = ["csrc/include", "tests", "benchmarks", "tools", "cmake"]
TEXTS = {".h", ".inc", ".cpp", ".c", ".py", ".cmake", ".sh", ".json", ".txt", ".pt"}


def test_other_directories_are_small_and_described():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Other directories")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.M)
    described = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    files = [p for top in OTHERS for p in (ROOT / top).rglob("*") if p.suffix in TEXTS]
    sizes = Counter(p.parent.relative_to(ROOT).as_posix() for p in files)
    del sizes["benchmarks/results"]  # which `make bench` writes and git ignores
    assert {name for name, count in sizes.items() if count > MAX_FILES} == set()
    assert set(sizes) == {name for name in described if not name.startswith("examples")}
