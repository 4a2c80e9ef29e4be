# SPDX-License-Identifier: BSD-3-Clause
"""Runs a command with each set of kernels of this processor: python tests/levels.py COMMAND ...

The sets are those of OpenBLAS (OPENBLAS_CORETYPE) and cograd's own levels (COGRAD_ISA). It stops
at the first run that fails.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The flags of /proc/cpuinfo that a core type's kernels need; OpenBLAS does not check them.
CORE_TYPES = {
    "PRESCOTT": {"pni"},
    "NEHALEM": {"sse4_2"},
    "SANDYBRIDGE": {"avx"},
    "HASWELL": {"avx2", "fma"},
    "ZEN": {"avx2", "fma"},
    "SKYLAKEX": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"},
}
# All other tests run the processor's best level; COGRAD_ISA never raises it.
LEVELS = {"base": {"pni"}, "v3": {"avx512f"}}

CORE_NAME = """
import ctypes, pathlib, scipy_openblas32
library = next(pathlib.Path(scipy_openblas32.get_lib_dir()).glob("libscipy_openblas*.so"))
name = ctypes.CDLL(str(library)).scipy_openblas_get_corename
name.restype = ctypes.c_char_p
print(name().decode())
"""


def cpu_flags():
    """Returns the first processor's flags in /proc/cpuinfo, or nothing if there is no such file."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return set(next((line.split() for line in lines if line.startswith("flags")), ()))


def environments():
    """Returns the variables of each run; core types that OpenBLAS lacks appear once."""
    flags = cpu_flags()
    found, names = [], set()
    for core, needed in CORE_TYPES.items():
        if not needed <= flags:
            continue
        variables = {"OPENBLAS_CORETYPE": core}
        name = subprocess.run(
            [sys.executable, "-c", CORE_NAME],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        if name not in names:
            found.append(variables)
        names.add(name)
    return found + [{"COGRAD_ISA": level} for level, needed in LEVELS.items() if needed <= flags]


def main(command):
    """Runs `command` with each set; programs that its tests compile are kept between the runs."""
    with tempfile.TemporaryDirectory() as programs:
        for variables in environments():
            name = " ".join(f"{k}={v}" for k, v in variables.items())
            print(f"--- {name}", flush=True)
            start = time.monotonic()
            env = {**os.environ, **variables, "COGRAD_TEST_PROGRAMS": programs}
            status = subprocess.run(command, env=env, check=False).returncode
            if status != 0:
                print(f"failed with {name}")
                return status
            print(f"{time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
