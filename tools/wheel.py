# SPDX-License-Identifier: BSD-3-Clause
"""Builds the wheel and gives it its manylinux tag: wheel.py [--out dist].

The wheel does not contain OpenBLAS: it depends on scipy-openblas32 and finds it at run time by a
relative path. auditwheel determines the tag from the versions of the system's symbols. The result
is packed again in a fixed order, with a fixed time (SOURCE_DATE_EPOCH, else 1980) and compressed
well: the same files produce the same bytes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
import zlib
from pathlib import Path

import scipy_openblas32

ROOT = Path(__file__).resolve().parent.parent


def deflated(data: bytes) -> bytes:
    """Returns a raw deflate stream, a smaller one by libdeflate if deflate is installed."""
    try:
        import deflate
    except ImportError:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        return packer.compress(data) + packer.flush()
    return bytes(deflate.deflate_compress(data, 12))


def repack(wheel: Path) -> None:
    """Rewrites a wheel: entries sorted, metadata last, one time, fixed permissions, deflated."""
    with zipfile.ZipFile(wheel) as old:
        files = {n: old.read(n) for n in old.namelist() if not n.endswith("/")}
    seconds = max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800)  # zip begins in 1980
    y, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    stamp = (hour << 11 | minute << 5 | second // 2, (y - 1980) << 9 | month << 5 | day)
    body, directory = bytearray(), bytearray()
    for name in sorted(files, key=lambda n: (".dist-info/" in n, n.endswith("RECORD"), n)):
        data, encoded = files[name], name.encode()
        packed, method = deflated(data), 8
        if len(packed) >= len(data):
            packed, method = data, 0
        shared = struct.pack(
            "<HHHHHIIIHH",
            *(20, 0x800, method, *stamp, zlib.crc32(data), len(packed), len(data)),
            *(len(encoded), 0),
        )
        mode = 0o100755 if name.endswith(".so") else 0o100644
        directory += b"PK\1\2" + struct.pack("<H", 3 << 8 | 20) + shared
        directory += struct.pack("<HHHII", 0, 0, 0, mode << 16, len(body)) + encoded
        body += b"PK\3\4" + shared + encoded + packed
    n = len(files)
    end = struct.pack("<HHHHIIH", 0, 0, n, n, len(directory), len(body), 0)
    wheel.write_bytes(bytes(body + directory) + b"PK\5\6" + end)


def repaired(raw: Path, out: Path) -> Path:
    """Sets a wheel's tag and writes it to `out`; replaces the wheel there for the same Python."""
    env = dict(os.environ, LD_LIBRARY_PATH=scipy_openblas32.get_lib_dir())
    env["PATH"] = f"{sysconfig.get_path('scripts')}{os.pathsep}{env['PATH']}"
    auditwheel = [sys.executable, "-m", "auditwheel", "repair", "--exclude", "libscipy_openblas.so"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*auditwheel, "-w", folder, str(raw)], env=env, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"auditwheel failed for {raw}:\n{done.stderr}")
        (wheel,) = Path(folder).glob("*.whl")
        repack(wheel)
        for old in out.glob("cograd-*.whl"):
            if old.name.split("-")[2] == wheel.name.split("-")[2]:
                old.unlink()
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, out))


def build(out: Path) -> Path:
    """Builds for this interpreter, from the source tree and its existing build directory."""
    raw = ROOT / "build" / "wheel"
    for old in raw.glob("cograd-*.whl"):
        old.unlink()
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "-w", str(raw), str(ROOT)], check=True)
    (wheel,) = raw.glob("cograd-*.whl")
    return repaired(wheel, out)


def main() -> None:
    """Builds, and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="default: dist")
    wheel = build(parser.parse_args().out)
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.2f} MB)")


if __name__ == "__main__":
    main()
