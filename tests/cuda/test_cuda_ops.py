# SPDX-License-Identifier: BSD-3-Clause
"""Every op of the table on CUDA: values, gradients, tangents, vmap, in place and out= of the CPU.

The kernels' text is compiled by g++ and run by the fake driver. fallbacks.txt lists the ops that
have no kernel for a case of the table; it may only become shorter.
"""

import sys
from pathlib import Path

import fakes
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "table"))
import test_fake_ops

why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))
FALLBACKS = Path(__file__).with_name("fallbacks.txt")


@pytest.mark.parametrize("part", range(test_fake_ops.PARTS))
def test_ops_have_the_cpus_values(part):
    known = set(FALLBACKS.read_text().split())
    fell_back = test_fake_ops.run_parts(part, "cuda", variables=fakes.environment())
    assert not fell_back - known, f"no kernel any more: {sorted(fell_back - known)}"
