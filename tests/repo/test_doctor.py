# SPDX-License-Identifier: BSD-3-Clause
"""python -m cograd doctor finds the faults that are planted in copies of the package."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cograd
from cograd.commands import doctor

PACKAGE = Path(cograd.__file__).parent
EDITABLE = PACKAGE != Path(cograd._C.__file__).parent
pytestmark = pytest.mark.skipif(EDITABLE, reason="built in place")


def run(*arguments, cwd=None, **env):
    """Returns the exit status and the findings of the doctor in another process."""
    done = subprocess.run(
        [sys.executable, *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **env},
    )
    assert done.stdout, done.stderr
    return done.returncode, [tuple(f.values()) for f in json.loads(done.stdout)]


def wrong(findings):
    return {what: text for status, what, text in findings if status == "FAIL"}


@pytest.fixture
def copy(tmp_path):
    """Returns a copy of the installed package, which comes first on the path."""
    target = tmp_path / "cograd"
    ignore = shutil.ignore_patterns("__pycache__", "include")
    shutil.copytree(PACKAGE, target, ignore=ignore)
    return target


def test_nothing_is_wrong_here():
    status, findings = run("-m", "cograd", "doctor", COGRAD_ISA="base")
    rest = wrong(findings)
    rest.pop("files", None)  # the installed package may have been edited
    assert not rest
    assert status == ("files" in wrong(findings))
    expected = {"Python", "NumPy", "OpenBLAS", "import cograd", "threads", "/dev/shm", "headers"}
    assert expected <= {what for _, what, _ in findings}
    assert any(what == "CPU" and "level base" in text for _, what, text in findings)


def test_an_import_that_fails_is_explained(copy):
    (copy / "lib" / "libcograd.so").unlink()
    env = {"PYTHONPATH": str(copy.parent)}
    failed = subprocess.run(
        [sys.executable, "-c", "import cograd"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )
    script = copy / "commands" / "doctor.py"
    assert str(script) in failed.stderr.splitlines()[-1]
    for command in (["-m", "cograd", "doctor"], [str(script)]):
        status, findings = run(*command, **env)
        assert status == 1
        assert "libcograd.so" in wrong(findings)["import cograd"]
        assert str(PACKAGE) in wrong(findings)["copies"]


def test_mismatched_binaries(copy):
    info = copy / "_base" / "build_info.py"
    info.write_text(info.read_text().replace(cograd.__version__, "9.8.7"))
    (module,) = copy.glob("_C.*.so")
    module.rename(copy / "_C.cpython-39-x86_64-linux-gnu.so")
    status, findings = run(str(copy / "commands" / "doctor.py"), PYTHONPATH=str(copy.parent))
    assert status == 1
    assert f"is version {cograd.__version__}, the package 9.8.7" in wrong(findings)["libcograd.so"]
    assert "cpython-39" in wrong(findings)["module"]
    assert module.name in wrong(findings)["module"]


def test_shadowed_modules_and_bad_settings(tmp_path):
    (tmp_path / "random.py").write_text("")
    (tmp_path / "notes.py").write_text("")
    status, findings = run("-m", "cograd", "doctor", cwd=tmp_path, COGRAD_NUM_THREADS="many")
    assert status == 1
    assert "hides the module random" in wrong(findings)["shadowed"]
    assert "'many'" in wrong(findings)["threads"]
    assert not any("notes" in text for _, _, text in findings)


def test_building_extensions_is_a_section(copy, tmp_path):
    """The copy has no headers, and there is no compiler, which only extensions need."""
    env = {"PYTHONPATH": str(copy.parent), "PATH": str(tmp_path), "CXX": "", "CC": ""}
    status, findings = run("-m", "cograd", "doctor", **env)
    assert status == 1
    assert "headers are in none of" in wrong(findings)["headers"]
    assert ("note", "C++ compiler") in [f[:2] for f in findings]
    assert "C++ compiler" not in wrong(findings)


def test_changed_and_missing_files(tmp_path, monkeypatch):
    package = tmp_path / "cograd"
    package.mkdir()
    (package / "a.py").write_text("a")
    (package / "b.py").write_text("b")
    folder = tmp_path / "cograd-1.0.dist-info"
    folder.mkdir()
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"a").digest()).rstrip(b"=").decode()
    rows = [f"cograd/{name},sha256={digest},1" for name in ("a.py", "b.py", "c.py")]
    (folder / "RECORD").write_text("\n".join([*rows, "cograd-1.0.dist-info/RECORD,,"]))
    monkeypatch.setattr(doctor, "PACKAGE", package)
    texts = [text for status, _, text in doctor.check_files() if status == "FAIL"]
    assert len(texts) == 2
    assert texts[0].startswith("missing: cograd/c.py;")
    assert texts[1].startswith("not as installed: cograd/b.py;")
    (tmp_path / "cograd-0.9.dist-info").mkdir()
    assert "several versions" in next(text for _, _, text in doctor.check_files())


def test_a_child_that_dies_is_named():
    assert doctor.child("import os; os.kill(os.getpid(), 4)") == ("", "it was ended by SIGILL")
    assert doctor.child("raise ValueError('no')")[1] == "ValueError: no"
