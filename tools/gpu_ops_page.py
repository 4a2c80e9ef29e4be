# SPDX-License-Identifier: BSD-3-Clause
"""Writes the page of the docs that tells how each op runs on a GPU, docs/gpu_ops.md.

Run it by the Python into which this tree is installed, after tests/cuda/op_coverage.py --update.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gpu_ops.md"

HEAD = """# Ops on a GPU

How each op runs on an NVIDIA GPU, measured on the fake driver by `tests/cuda/op_coverage.py`, which
calls the samples of the op table. [Running on a GPU](gpu.md) explains the rest. This page is
written by `tools/gpu_ops_page.py`.

- **kernel**: by kernels of cograd, which NVRTC compiles at their first use.
- **library**: with products of matrices, which cuBLASLt computes if it is installed, else kernels
  of cograd; or with factors of matrices by cuSOLVER and triangular systems by cuBLAS, which fall
  back if these are not installed.
- **no kernel**: nothing is computed: the result is a view, new memory, or a copy by the driver.
- **fallback**: on the CPU, on copies of the arguments, for at least one of the samples. Gradients
  of other ops may fall back, too: `cuda.set_fallback("error")` finds them in a program.

cuFFT computes the transforms of `cograd.fft`, `stft` and `istft` if it is installed, else they fall
back. cuDNN computes convolutions of floating dtypes if it is installed, else they are products of
matrices ([more](gpu.md#convolutions)).
"""
TITLES = {"kernel": "kernel", "library": "library", "view": "no kernel", "fallback": "fallback"}


def page() -> str:
    """Returns the page's text."""
    sys.path.insert(0, str(ROOT / "tests" / "cuda"))
    import op_coverage  # type: ignore[import-not-found]

    from cograd import _C

    kinds: dict[str, str] = {}
    for record in op_coverage.public(_C._op_table()):
        kinds.setdefault(record["name"], record["kind"])
    kept = op_coverage.kept()
    lines = [HEAD]
    counts = ", ".join(
        f"{sum(s == status for s in kept.values())} {title}" for status, title in TITLES.items()
    )
    lines += [f"{len(kept)} ops: {counts}.", ""]
    for status, title in TITLES.items():
        lines += [f"## {title[0].upper()}{title[1:]}", "", "| kind | ops |", "|---|---|"]
        for kind in sorted(set(kinds.values())):
            names = sorted(n for n, s in kept.items() if s == status and kinds.get(n) == kind)
            if names:
                lines.append(f"| {kind} | {' '.join(f'`{n}`' for n in names)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
