# SPDX-License-Identifier: BSD-3-Clause
"""``python -m cograd doctor``: reports problems of this installation, and what to do.

Uses nothing of cograd itself, so that this file also runs as a script if ``import cograd`` fails.
Runs everything that can end a process (loading a library, computing) in a child process.
"""

from __future__ import annotations

import os
import sys

__all__ = ["Finding", "main", "report"]

# Import the standard library, not user files with the same names as its modules.
sys.path.insert(0, os.path.dirname(os.__file__))

import argparse
import base64
import csv
import hashlib
import importlib.util
import json
import platform
import re
import resource
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.pop(0)

Finding = tuple[str, str, str]  # status ("ok", "note" or "FAIL"), what was checked, what was found

PACKAGE = Path(__file__).resolve().parent.parent
NUMPY = (1, 24)
PYTHON = (3, 10)
REINSTALL = "reinstall it: pip install --force-reinstall --no-cache-dir cograd"

_PROBE = """
import json, os, cograd
x = cograd.arange(12, dtype=cograd.float64).reshape(3, 4).requires_grad_()
y = ((x @ x.T).exp().log() * 2).sum()
y.backward()
maps = open("/proc/self/maps").read().split() if os.path.exists("/proc/self/maps") else []
print(json.dumps({
    "value": y.item(), "gradient": x.grad.sum().item(),
    "threads": cograd.get_num_threads(), "reason": cograd._C._threads_reason(),
    "isa": cograd._C._isa(), "library": sorted({m for m in maps if m.endswith("libcograd.so")}),
    "module": cograd._C.__file__, "numpy": float((cograd.ones(2).numpy() * 2).sum()),
}))
"""


# Prints nothing if cograd cannot be imported: another line says that already.
_EXTENSIONS = """
import json
try:
    import cograd
except ImportError:
    found = []
else:
    from cograd.utils.cpp_extension import __main__ as extensions, _paths
    found = list(extensions.findings(_paths.build_root(), BUILD))
print(json.dumps(found))
"""


def child(code: str, seconds: float = 120, **env: str) -> tuple[str, str]:
    """Runs code in another interpreter; returns its output, and why it failed or ""."""
    # The probe must find the package that this file belongs to.
    path = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, "PYTHONPATH": path, **env},
        )
    except subprocess.TimeoutExpired:
        return "", f"it did not end within {seconds} s"
    if done.returncode < 0:
        return "", f"it was ended by {signal.Signals(-done.returncode).name}"
    if done.returncode:
        lines = [
            line for line in done.stderr.splitlines() if re.match(r"[\w.]+(Error|Exit)?: ", line)
        ]
        return "", lines[-1] if lines else f"exit status {done.returncode}"
    return done.stdout.strip(), ""


def check_python() -> Iterator[Finding]:
    """Checks the interpreter and the machine that the wheels are built for."""
    text = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if platform.python_implementation() != "CPython" or sys.version_info < PYTHON:
        yield "FAIL", "Python", f"{text}; CPython 3.10 or newer is needed"
    else:
        yield "ok", "Python", text
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        yield "FAIL", "machine", f"{platform.machine()}: 64 bits and little-endian are needed"


def origin(name: str) -> str | None:
    """Returns the file that ``import name`` would run, without running it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None else None


def check_shadowed() -> Iterator[Finding]:
    """Checks for user files that shadow modules."""
    copies = []
    for entry in dict.fromkeys(os.path.realpath(p or os.getcwd()) for p in sys.path):
        if os.path.isfile(os.path.join(entry, "cograd", "__init__.py")):
            copies.append(os.path.join(entry, "cograd"))
        elif os.path.isfile(os.path.join(entry, "cograd.py")):
            copies.append(os.path.join(entry, "cograd.py"))
    others = [c for c in copies if c != str(PACKAGE)]
    if others:
        yield "FAIL", "copies", f"{PACKAGE} is not the only cograd on sys.path: {', '.join(others)}"
    standard = [os.path.realpath(sysconfig.get_paths()[k]) for k in ("stdlib", "platstdlib")]
    site = [os.path.realpath(sysconfig.get_paths()[k]) for k in ("purelib", "platlib")]
    shadows = []
    for entry in dict.fromkeys(os.path.realpath(p or os.getcwd()) for p in sys.path):
        inside = any(entry == s or entry.startswith(s + os.sep) for s in [*standard, *site])
        if inside or not os.path.isdir(entry):
            continue
        for name in sorted(os.listdir(entry)):
            stem, suffix = os.path.splitext(name)
            if stem in {"numpy", "safetensors", "scipy_openblas32"} | sys.stdlib_module_names:
                file = os.path.join(entry, name)
                package = os.path.isfile(os.path.join(file, "__init__.py"))
                if (suffix == ".py" and os.path.isfile(file)) or (not suffix and package):
                    shadows.append(file)
    for file in shadows:
        stem = os.path.splitext(os.path.basename(file))[0]
        if origin(stem) is not None and os.path.dirname(file) != os.path.dirname(__file__):
            yield "FAIL", "shadowed", f"{file} hides the module {stem}; rename it"


def check_files() -> Iterator[Finding]:
    """Compares the installed files with the record of the installation."""
    folders = sorted(PACKAGE.parent.glob("cograd-*.dist-info"))
    if not folders:
        yield "note", "files", f"{PACKAGE} was not installed by pip: no record to compare with"
        return
    if len(folders) > 1:
        versions = ", ".join(f.name for f in folders)
        yield "FAIL", "files", f"records of several versions: {versions}; {REINSTALL}"
    missing, changed, binaries = [], [], 0
    with (folders[-1] / "RECORD").open(newline="", encoding="utf-8") as record:
        for name, digest, _ in csv.reader(record):
            path = PACKAGE.parent / name
            if not digest or name.endswith(".pyc"):
                continue
            if not path.exists():
                missing.append(name)
                continue
            binaries += name.endswith(".so")
            found = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest())
            if digest.partition("=")[2] != found.rstrip(b"=").decode():
                changed.append(name)
    for what, names in (("missing", missing), ("not as installed", changed)):
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            yield "FAIL", "files", f"{what}: {', '.join(names[:5])}{more}; {REINSTALL}"
    if not missing and not changed:
        yield "ok", "files", f"{PACKAGE}, as installed"


def check_binaries() -> Iterator[Finding]:
    """Checks the compiled module for this Python, and the version of the library beside it."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    present = sorted(p.name for p in PACKAGE.glob("_C.*.so"))
    if not present:  # they are elsewhere in an editable install
        yield "note", "module", f"no compiled module in {PACKAGE}"
    elif f"_C{suffix}" not in present:
        yield (
            "FAIL",
            "module",
            f"{', '.join(present)} is here, but this Python loads _C{suffix}; {REINSTALL}",
        )
    library = PACKAGE / "lib" / "libcograd.so"
    built = PACKAGE / "_base" / "build_info.py"
    if not library.exists() or not built.exists():
        return
    version = re.search(r'^version = "(.*)"', built.read_text(encoding="utf-8"), re.M)
    code = (
        f"import ctypes; blas = {openblas()!r}; blas and ctypes.CDLL(blas)\n"
        f"version = ctypes.CDLL({str(library)!r}).cograd_version\n"
        "version.restype = ctypes.c_char_p; print(version().decode())"
    )
    told, why = child(code)
    if why:
        yield "FAIL", "libcograd.so", f"{library} does not load: {why}"
    elif version is not None and told != version[1]:
        yield (
            "FAIL",
            "libcograd.so",
            f"{library} is version {told}, the package {version[1]}; {REINSTALL}",
        )
    else:
        yield "ok", "libcograd.so", f"version {told}"


def openblas() -> str | None:
    """Returns the path of OpenBLAS' library, or None."""
    found = origin("scipy_openblas32")
    path = os.path.join(os.path.dirname(found), "lib", "libscipy_openblas.so") if found else ""
    return path if os.path.exists(path) else None


def check_requirements() -> Iterator[Finding]:
    """Checks NumPy, OpenBLAS and safetensors."""
    told, why = child("import numpy; print(numpy.__version__, numpy.__file__)")
    if why:
        yield "FAIL", "NumPy", f"{why}; pip install 'numpy>=1.24'"
    else:
        version = tuple(int(n) for n in re.findall(r"\d+", told)[:2])
        yield ("ok", "NumPy", told) if version >= NUMPY else ("FAIL", "NumPy", f"{told} < 1.24")
    blas = openblas()
    if blas is None:
        yield "FAIL", "OpenBLAS", "scipy-openblas32 is not here: pip install scipy-openblas32"
    else:
        ask = (
            f"import ctypes; b = ctypes.CDLL({blas!r}); f = b.scipy_openblas_get_config;"
            "f.restype = ctypes.c_char_p; print(f().decode())"
        )
        told, why = child(ask)
        if why:
            yield "FAIL", "OpenBLAS", f"{blas} does not load: {why}"
        else:
            yield "ok", "OpenBLAS", f"{told.strip()}, {blas}"
    told, why = child("import safetensors; print(safetensors.__version__)")
    if why:
        yield "FAIL", "safetensors", f"{why}; save and load need it: pip install safetensors"
    else:
        yield "ok", "safetensors", told


def check_computing() -> Iterator[Finding]:
    """Checks import, product and backward on every vector level, and the loaded libraries."""
    out, why = child(_PROBE)
    if why:
        yield "FAIL", "import cograd", why
        return
    told = json.loads(out)
    processor, chosen = told["isa"]
    yield "ok", "import cograd", "a product and its gradient were computed"
    text = f"level {chosen} of vector instructions; this processor has {processor}"
    lowered = chosen != processor
    yield ("note" if lowered else "ok"), "CPU", text + (", see COGRAD_ISA" if lowered else "")
    for level in ("base", "v3"):
        again, why = child(_PROBE, COGRAD_ISA=level)
        far = not why and abs(json.loads(again)["value"] / told["value"] - 1) > 1e-12
        if why or far:
            yield "FAIL", "CPU", f"level {level}: {why or 'other values than ' + chosen}"
    libraries = told["library"]
    own = os.path.join(os.path.dirname(told["module"]), "lib", "libcograd.so")
    if libraries and [os.path.realpath(p) for p in libraries] != [os.path.realpath(own)]:
        yield (
            "FAIL",
            "libcograd.so",
            f"loaded: {', '.join(libraries)}, expected {own}; look at LD_LIBRARY_PATH, LD_PRELOAD",
        )
    yield from check_threads(told["threads"], told["reason"])


def check_threads(threads: int, reason: str) -> Iterator[Finding]:
    """Says how many threads compute and why; checks that there are processors to run them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{reason}; {cores} processors"
    wrong = False
    for name in ("COGRAD_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name)
        if given is not None and re.match(r"\s*\+?0*[1-9]", given) is None:
            yield "FAIL", "threads", f"{name}={given!r} is no positive number; {text}"
            wrong = True
    if wrong:
        return
    if cores is not None and threads > cores:
        yield "note", "threads", f"{text}: they will wait for each other"
    else:
        yield "ok", "threads", text


def check_memory() -> Iterator[Finding]:
    """Checks memory that processes share, and limits."""
    if not hasattr(os, "memfd_create"):
        yield "note", "shared memory", "no memfd_create here: no workers, no share_memory_()"
    else:
        try:
            os.close(os.memfd_create("cograd-doctor"))
            yield "ok", "shared memory", "memfd_create works"
        except OSError as e:
            yield "FAIL", "shared memory", f"memfd_create: {e.strerror}; DataLoader workers need it"
    shm = Path("/dev/shm")
    if not shm.is_dir() or not os.access(shm, os.W_OK):
        yield "note", "/dev/shm", "not here or not writable: multiprocessing locks need it"
    else:
        free = shutil.disk_usage(shm).free
        text = f"{free / 1e6:.0f} MB free"
        if free < 64e6:
            yield "note", "/dev/shm", f"{text}: little (docker run --shm-size=1g)"
        else:
            yield "ok", "/dev/shm", text
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft < 4e9:
        yield "note", "memory", f"the address space is limited to {soft / 1e9:.1f} GB (ulimit -v)"


def check_extensions(build: bool = False) -> Iterator[Finding]:
    """Checks what only extensions need; ``build`` also builds one."""
    told, why = child(_EXTENSIONS.replace("BUILD", str(build)), seconds=600)
    if why:
        yield "FAIL", "extensions", why
        return
    yield from json.loads(told.splitlines()[-1])


_GPU = """
import json, cograd
from cograd import _C
cuda, failure = cograd.cuda, ""
count = cuda.device_count()
told = {"count": count, "failure": _C._cuda_failure(), "gpus": [], "libraries": []}
if not told["failure"]:
    told["driver"] = _C._cuda_driver_version()
    told["libraries"] = _C._cuda_libraries()
    for i in range(cuda.device_count()):
        p = cuda.get_device_properties(i)
        told["gpus"].append([p.name, f"{p.major}.{p.minor}", p.total_memory])
    cuda.set_fallback("error")
    try:
        told["sum"] = (cograd.ones(1, device="cuda") + 1).item()
    except Exception as error:
        told["sum"] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""
_EXTRA = "pip install 'cograd[cuda]' (CUDA 13) or 'cograd[cuda12]'"


def _gpus(told: dict[str, Any]) -> Iterator[Finding]:
    major, minor = divmod(told["driver"] // 10, 100)
    for name, path, version, missing in told["libraries"]:
        if name == "NVIDIA driver":
            yield "ok", name, f"for CUDA {major}.{minor}, {path}"
        elif missing:
            needed = name == "NVRTC"
            yield "FAIL" if needed else "note", name, f"not found: {_EXTRA}" if needed else missing
        else:
            yield "ok", name, f"{version}, {path}" if version else path
    for index, (name, capability, memory) in enumerate(told["gpus"]):
        yield "ok", f"cuda:{index}", f"{name}, capability {capability}, {memory / 2**30:.1f} GiB"
    if told["sum"] == 2:
        yield "ok", "GPU", "a sum was computed"
    elif told["gpus"]:
        yield "FAIL", "GPU", f"1 + 1 on cuda:0: {told['sum']}"


def check_gpu() -> Iterator[Finding]:
    """Checks the driver and the libraries that programs with device="cuda" need."""
    said, why = child(_GPU)
    if why:
        yield "note", "GPU", why
        return
    told = json.loads(said.splitlines()[-1])
    if not told["failure"]:
        yield from _gpus(told)
    elif told["count"]:
        yield "FAIL", "GPU", f"{told['count']} are here, but cannot be used: {told['failure']}"
    else:
        yield "ok", "GPU", f"none: {told['failure']}"


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python,
    check_shadowed,
    check_files,
    check_binaries,
    check_requirements,
    check_computing,
    check_memory,
    check_gpu,
)


def report(sections: Iterable[Iterator[Finding]], good: str, as_json: bool = False) -> int:
    """Prints a line for each finding, or a JSON list, and at the end whether something is wrong.

    Args:
        sections: the findings; each is printed when it is found.
        good: what to print at the end if nothing is wrong.
        as_json: prints a JSON list instead.

    Returns:
        1 if something is wrong, else 0.
    """
    findings: list[Finding] = []
    for section in sections:
        for status, what, text in section:
            findings.append((status, what, text))
            if not as_json:
                print(f"{status:4}  {what}: {text}", flush=True)
    wrong = sum(status == "FAIL" for status, _, _ in findings)
    if as_json:
        keys = ("status", "what", "text")
        print(json.dumps([dict(zip(keys, f, strict=True)) for f in findings], indent=2))
    else:
        print(good if wrong == 0 else f"{wrong} things are wrong: see FAIL")
    return int(wrong > 0)


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each finding; returns 1 if there is a problem, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m cograd doctor",
        description="Says what is wrong with this installation. The exit status is 1 if "
        "something is.",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as a JSON list")
    parser.add_argument("--build", action="store_true", help="also compile and load an extension")
    args = parser.parse_args(arguments)
    sections = (*(check() for check in CHECKS), check_extensions(args.build))
    return report(sections, "nothing is wrong", args.json)


if __name__ == "__main__":
    # In a script, this directory is first on sys.path, but is not on the program's path.
    sys.path[:] = [p for p in sys.path if os.path.realpath(p) != os.path.dirname(__file__)]
    sys.exit(main(sys.argv[1:]))
