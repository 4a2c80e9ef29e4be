# SPDX-License-Identifier: BSD-3-Clause
"""Builds one extension in several processes and kills some; the others must load it in time."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from fuzz.execute import Wrong

SOURCE = """
#include <cograd/extension.h>
using namespace cograd;
static Tensor twice_{k}(const Tensor& x) {{ return x * 2.0 + {k}.0; }}
COGRAD_LIBRARY(fuzz_{k}, m) {{ m.def("twice", &twice_{k}, "x", "2 x."); }}
"""
BUILD = """
import sys, time
import cograd as torch
from cograd.utils import cpp_extension
cpp_extension.load("fuzz_{k}", [{path!r}], build_directory={folder!r}, is_python_module=False)
print(torch.ops.fuzz_{k}.twice(torch.ones(2)).tolist(), flush=True)
"""


def case(seed):
    r = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "source.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SOURCE.format(k=seed % 1000))
        made = os.path.join(folder, "build")
        os.makedirs(made)
        command = [sys.executable, "-c", BUILD.format(k=seed % 1000, path=path, folder=made)]
        builders = [start(command) for _ in range(3)]
        time.sleep(r.random() * 6)
        victims = r.sample(builders, r.choice((0, 1, 2)))
        for v in victims:
            os.killpg(v.pid, signal.SIGKILL)
        builders.append(start(command))
        for b in builders:
            try:
                out, _ = b.communicate(timeout=300)
            except subprocess.TimeoutExpired:
                os.killpg(b.pid, signal.SIGKILL)
                raise Wrong(f"a build hangs, {len(victims)} others were killed") from None
            want = str([2.0 + seed % 1000] * 2)
            if b not in victims and (b.returncode != 0 or want not in out):
                raise Wrong(f"a build ended with {b.returncode}: {out[-1500:]}")


def start(command):
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def describe(seed):
    return f"build {seed}"
