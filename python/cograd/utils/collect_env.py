# SPDX-License-Identifier: BSD-3-Clause
"""Collects versions and settings for bug reports: ``python -m cograd.utils.collect_env``."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import NamedTuple

import cograd

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]

_PACKAGES = ("numpy", "scipy-openblas32", "scipy", "pybind11", "torch")


class SystemEnv(NamedTuple):
    """Versions and settings of this machine."""

    cograd_version: str
    python_version: str
    platform: str
    libc: str
    cpu: str
    cores: int
    num_threads: int
    packages: dict[str, str]
    variables: dict[str, str]


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def get_env_info() -> SystemEnv:
    """Collects versions and settings; lists only installed packages."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    prefixes = ("COGRAD_", "OMP_", "OPENBLAS_")
    return SystemEnv(
        cograd_version=cograd.__version__,
        python_version=sys.version.replace("\n", " "),
        platform=platform.platform(),
        libc="-".join(platform.libc_ver()),
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        num_threads=cograd.get_num_threads(),
        packages=packages,
        variables={k: v for k, v in sorted(os.environ.items()) if k.startswith(prefixes)},
    )


def get_pretty_env_info() -> str:
    """Returns ``get_env_info()`` as text."""
    info = get_env_info()
    lines = [
        f"cograd: {info.cograd_version}",
        f"Python: {info.python_version}",
        f"Platform: {info.platform} (libc {info.libc})",
        f"CPU: {info.cpu}, {info.cores} cores, {info.num_threads} threads",
        "Packages:",
        *(f"  {name}=={version}" for name, version in info.packages.items()),
        "Variables:",
        *(f"  {name}={value}" for name, value in info.variables.items()),
    ]
    return "\n".join(lines)


def main() -> None:
    """Prints ``get_pretty_env_info()``."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
