# SPDX-License-Identifier: BSD-3-Clause
"""Only kernels touch the memory of tensors: ops and the engine pass pointers on.

`t.data<T>()` and `t.bytes()` may be an argument of a call of a kernel, a field of a struct that
such a call takes, or the first element of a view. A device replaces kernels; it could not see an
op that loops over memory itself.
"""

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
ROOMS = ("ops", "autograd", "transforms")

pytestmark = pytest.mark.skipif(not CSRC.is_dir(), reason="not run from a source checkout")

# Loops over memory, in whatever way it was reached.
LOOPS = re.compile(
    r"\bparallel_for\b|\bmem(?:cpy|set|move)\b|\bstd::(?:ranges::)?(?:fill|copy|iota)\w*"
)
POINTER = re.compile(r"[.>](?:data<[^;()]*>|bytes)\(\)|\bbytes_or_null\(")
# Calls that a pointer may be an argument of. `fn` is a parameter that holds a kernel.
KERNEL = re.compile(r"(?:kernels::\w+(?:<[^<>()]*>)?|\bfn)$")
GEOMETRY = re.compile(r"\b(?:alias_strided|make_view|take_geometry|tensor_of_storage)$")

# What stays, by file: how many of the lines that the search finds, and why.
CALLBACK = "passes the pointer to a callback, which calls a kernel"
FIELDS = "fills a struct that a kernel takes"
GEOMETRIC = "computes or compares the places of views"
SIZES = "copies sizes, strides, edges or options, no elements"
EXCEPTIONS = {
    "autograd/graph/node.cpp": (1, SIZES),
    "autograd/graph/variable.cpp": (3, SIZES),
    "autograd/run/staged.cpp": (1, "moves tensors, not their elements"),
    "transforms/levels.cpp": (1, GEOMETRIC),
    "transforms/sparse.cpp": (1, "the one element of a sparse tensor's memory"),
    "ops/compute/elementwise.cpp": (3, "operands of loops"),
    "ops/compute/host_values.h": (4, "the one place where values move between tensors and host"),
    "ops/compute/overlap.cpp": (4, GEOMETRIC),
    "ops/compute/pointers.h": (1, "the search finds the calls of bytes_or_null()"),
    "ops/compute/raw.cpp": (7, "operands of loops; a Python number as an element"),
    "ops/compute/resize.cpp": (4, f"{GEOMETRIC}; {SIZES}"),
    "ops/index/advanced.cpp": (2, f"{FIELDS}; {SIZES}"),
    "ops/linalg/csr.cpp": (2, FIELDS),
    "ops/linalg/matmul.cpp": (1, FIELDS),
    "ops/nn/attention.cpp": (1, FIELDS),
    "ops/nn/rnn.cpp": (3, FIELDS),
    "ops/nn/rnn_cell.cpp": (1, FIELDS),
    "ops/optim/step.cpp": (3, f"{FIELDS}; {GEOMETRIC}; {SIZES}"),
    "ops/optim/step.h": (1, SIZES),
    "ops/random/draws.cpp": (3, CALLBACK),
    "ops/random/fill.h": (5, f"{CALLBACK}; {SIZES}"),
    "ops/reduce/reduce.cpp": (1, GEOMETRIC),
    "ops/transform/device_stage.cpp": (6, "copies between devices, by their backend"),
    "ops/transform/fallback.cpp": (3, "sums the bytes of its own copies on the host"),
    "ops/shape/geometry.cpp": (1, GEOMETRIC),
    "ops/shape/inplace_geometry.cpp": (1, GEOMETRIC),
    "ops/shape/join.cpp": (2, f"{FIELDS}; {GEOMETRIC}"),
    "ops/shape/rearrange.cpp": (1, GEOMETRIC),
}


def without_comments(text):
    """Returns the text with comments and strings blanked, at the same positions."""
    comment_or_string = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\""
    return re.sub(comment_or_string, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)


def callees(text, at):
    """Yields what stands before each bracket that is open at a position, the innermost first."""
    depth = 0
    for i in range(at - 1, -1, -1):
        c = text[i]
        if c in ")}":
            depth += 1
        elif c in "({":
            if depth == 0:
                yield c, text[max(0, i - 300) : i].rstrip()
            else:
                depth -= 1
        elif c == ";" and depth == 0:
            return


def allowed(text, at):
    """True for a pointer that is passed to a kernel or is the first element of a view."""
    returned = False
    for bracket, before in callees(text, at):
        if bracket == "(" and (KERNEL.search(before) or GEOMETRY.search(before)):
            return True
        if bracket == "{" and before.endswith((")", "else", "do", "try", "const")):
            # The body of a function, which may return a struct of a kernel's arguments.
            return returned and "kernels::" in re.split(r"[;{}]", before)[-1]
        returned |= before.endswith("return")
    return False


def violations(text):
    """Yields the number of each line that touches memory."""
    text = without_comments(text)
    found = {text.count("\n", 0, m.start()) + 1 for m in LOOPS.finditer(text)}
    for m in POINTER.finditer(text):
        if not allowed(text, m.start()) or re.match(r"\s*\[", text[m.end() :]):
            found.add(text.count("\n", 0, m.start()) + 1)
    return sorted(found)


def sources():
    return sorted(
        p for room in ROOMS for p in (CSRC / room).rglob("*") if p.suffix in {".h", ".cpp"}
    )


def test_only_kernels_touch_memory():
    wrong = []
    for source in sources():
        name = source.relative_to(CSRC).as_posix()
        lines = violations(source.read_text())
        count, _ = EXCEPTIONS.get(name, (0, ""))
        if len(lines) != count:
            where = ", ".join(map(str, lines))
            wrong.append(f"{name}: {len(lines)} lines touch memory ({where}), {count} are known")
    assert not wrong, "\n".join(wrong)


def test_every_exception_is_needed():
    names = {p.relative_to(CSRC).as_posix() for p in sources()}
    assert set(EXCEPTIONS) <= names
    assert all(count > 0 and reason for count, reason in EXCEPTIONS.values())


@pytest.mark.parametrize(
    "line",
    [
        "T* to = out.data<T>();",
        "const double v = *t.data<double>();",
        "const double v = kernels::f(t.data<double>()[3]);",
        "std::memcpy(out.bytes(), in.bytes(), n);",
        "std::fill_n(p, n, 0);",
        "std::ranges::copy(a, p);",
        "parallel_for(0, n, 1, [&](int64_t lo, int64_t hi) {});",
        "each(x, [&] { use(t.bytes()); });",
        "f(p->bytes());",
        "S s{bytes_or_null(t)};",
    ],
)
def test_the_check_can_fail(line):
    assert violations(f"void f() {{\n  {line}\n}}\n") == [2]


@pytest.mark.parametrize(
    "line",
    [
        "kernels::f(x.bytes(), 3, {y.data<int64_t>(), n});",
        "return kernels::f<T>(g(x), w.defined() ? w.bytes() : nullptr);",
        "fn(x.dtype(), in.bytes());",
        "Tensor y = alias_strided(x, sizes, strides, x.bytes() + 3);",
        "} kernels::S s() const { return {t.bytes(), 3};",
        "// *t.data<T>() is not allowed here",
        'fail("memcpy");',
    ],
)
def test_what_is_allowed_is_not_found(line):
    assert violations(f"void f() {{\n  {line}\n}}\n") == []
