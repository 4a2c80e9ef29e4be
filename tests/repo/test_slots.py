# SPDX-License-Identifier: BSD-3-Clause
"""The seam of devices: every kernel function that an op calls begins with a COGRAD_SLOT line."""

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
pytestmark = pytest.mark.skipif(not CSRC.is_dir(), reason="not run from a source checkout")

USE = re.compile(r"\bkernels::([a-z]\w*)\s*[(<;,]")
DECLARED = re.compile(
    r"^(template <class T>\n)?([A-Za-z_][\w:<>\s*&]*?)\b([a-z]\w*)\(([^;{}()]*?)\);", re.M
)
DEFINED = r"^[A-Za-z_][\w:<> *&]*?\b{name}\([^;{{}}()]*?\) (?:noexcept )?\{{\n(.*)$"
# Functions that touch no tensor: they look something up.
LOOKUPS = {
    "binary_backward_loop", "cast_loop", "complex_loop", "fill_loop", "has_loop", "index_loops",
    "isa_name", "isa_of_processor", "optim_loop", "optim_rule", "optim_scalar",
    "unary_backward_loop", "load_index", "within",
    "count_args", "types",
    "run_loop", "run_row",  # operands are moved one by one
}  # fmt: skip


def used_names(texts):
    return {name for text in texts for name in USE.findall(text)} - LOOKUPS


def without_slot(names, headers, sources):
    """Yields the declared kernels among `names` whose definition does not begin with its slot."""
    declared = {}
    for text in headers:
        for template, _, name, _ in DECLARED.findall(text):
            if name in names:
                declared[name] = bool(template)
    for name, template in sorted(declared.items()):
        if template:
            yield f"{name}: a kernel that ops call is no template, so that a device can have it"
            continue
        pattern = re.compile(DEFINED.format(name=name), re.M)
        first = [m.group(1).strip() for text in sources for m in pattern.finditer(text)]
        if not any(re.match(rf"COGRAD_SLOT\w*\(([^,]+, )?{name}\b", line) for line in first):
            yield f"{name}: the definition must begin with COGRAD_SLOT({name}, its arguments)"


def read(folder, suffixes):
    return [p.read_text() for p in sorted(folder.rglob("*")) if p.suffix in suffixes]


def test_kernels_that_ops_call_have_slots():
    parts = ("ops", "transforms", "autograd")
    ops = [text for part in parts for text in read(CSRC / part, {".h", ".cpp"})]
    names = used_names(ops)
    assert len(names) > 90
    kernels = CSRC / "kernels"
    found = list(without_slot(names, read(kernels, {".h"}), read(kernels, {".cpp", ".h"})))
    assert not found, "\n".join(found)


ASKED = re.compile(r"\bplace_has_kernel\(([^)]*)\)")
SLOT = re.compile(r"\bCOGRAD_SLOT(?:_READS)?\((\w+)|\bCOGRAD_SLOT_OR\([^,]+, (\w+)")


def asked_without_slot(texts):
    """Yields what place_has_kernel is asked for that is no slot: it would always be false."""
    slots = {a or b for text in texts for a, b in SLOT.findall(text)}
    for text in texts:
        for name in ASKED.findall(text):
            if name.strip('"') not in slots and name not in ("const char* name",):
                yield name


def test_ops_ask_for_kernels_that_have_slots():
    texts = [
        text for part in ("ops", "kernels", "tensor") for text in read(CSRC / part, {".h", ".cpp"})
    ]
    assert sum(len(ASKED.findall(text)) for text in texts) > 5
    assert not list(asked_without_slot(texts))
    bad = 'COGRAD_SLOT_OR(1, lu, a); if (place_has_kernel("lu") && place_has_kernel("lv")) x();'
    assert list(asked_without_slot([bad])) == ['"lv"']


def test_a_kernel_without_a_slot_is_found():
    header = "void fill(int* x, int n);\nvoid sum(int* x);\ntemplate <class T>\nint lu(T* a);\n"
    source = "void fill(int* x, int n) {\n  COGRAD_SLOT(fill, x, n);\n}\n"
    source += "void sum(int* x) {\n  loop(x);\n}\n"
    names = used_names(["kernels::fill(x, 3); kernels::sum(x); kernels::lu<T>(a);"])
    found = list(without_slot(names, [header], [source]))
    assert [f.split(":")[0] for f in found] == ["lu", "sum"]
