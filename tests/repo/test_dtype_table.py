# SPDX-License-Identifier: BSD-3-Clause
"""csrc/include/cograd/dtypes.def is the only place that lists the dtypes in order."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
TABLE = CSRC / "include" / "cograd" / "dtypes.def"
# An enumerator, or its number, beside an operator that compares order or computes.
NAMED = r"(?:static_cast<\w+>\()?(?:cograd::)?DType::\w+\)?"
ORDER = re.compile(rf" (?:<|<=|>|>=|-|\+) {NAMED}|{NAMED} (?:<|<=|>|>=|-|\+) ")

pytestmark = pytest.mark.skipif(not CSRC.is_dir(), reason="not run from a source checkout")


def rows():
    return re.findall(r"^COGRAD_DTYPE_ROW\((\w+), ", TABLE.read_text(), re.M)


def ordered_uses(text):
    """Yields the lines that compare dtypes by order."""
    for line in text.splitlines():
        if ORDER.search(line.split("//")[0]):
            yield line.strip()


def test_nothing_compares_the_order_of_dtypes():
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted(CSRC.rglob("*"))
        if path.suffix in {".h", ".cpp"}
        for line in ordered_uses(path.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "if (t >= DType::Complex64) fail();",
        "return static_cast<unsigned>(t) - static_cast<unsigned>(DType::Complex64) <= 1;",
        "return static_cast<int>(DType::UInt16) - first < 3;",
        "if (t < DType::Int64 || u > x) f();",
        "if (DType::UInt16 <= t) return true;",
    ],
)
def test_the_search_can_fail(line):
    assert list(ordered_uses(line)) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "put<DType::Bool, bool>(row);",
        "row[static_cast<int>(DType::UInt32)] = row[static_cast<int>(DType::Int32)];",
        "return t == DType::Float64 ? DType::Complex128 : DType::Complex64;",
    ],
)
def test_the_search_finds_comparisons_only(line):
    assert not list(ordered_uses(line))


def test_kernels_of_gpus_number_dtypes_alike():
    """The text of GPU kernels cannot include the table, as NVRTC has no standard headers."""
    text = (CSRC / "cuda" / "text" / "store.h").read_text()
    body = re.search(r"enum StoredType : int \{(.*?)\};", text, re.S).group(1)
    number, found = -1, {}
    for name, value in re.findall(r"k(\w+)(?: = (\d+))?,", body):
        number = int(value) if value else number + 1
        found[name] = number
    assert len(found) > 10
    names = rows()
    assert {name: names.index(name) for name in found} == found
