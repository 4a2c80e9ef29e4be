# SPDX-License-Identifier: BSD-3-Clause
"""The examples run, and so does every Python listing of the README and the documentation."""

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/**/*.md")])
# ```python is run; ```python no-run and other languages are not. The fence's info string declares
# an expected exception: ```python raises=RuntimeError
FENCE = re.compile(r"^```python[ \t]*([^\n]*)\n(.*?)^```", re.M | re.S)

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="not run from a source checkout")


def has(*modules):
    return all(importlib.util.find_spec(m) is not None for m in modules)


def run_example(name, *arguments, cwd):
    env = {**os.environ, "MPLBACKEND": "Agg"}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result.stdout


def is_picture(path, least):
    data = path.read_bytes()
    return data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > least


@pytest.mark.slow
@pytest.mark.skipif(not has("matplotlib"), reason="needs the extra demo")
def test_legendre(tmp_path):
    out = run_example("legendre.py", "--out", "fit.png", cwd=tmp_path)
    losses = [float(x) for x in re.findall(r"loss: ([\d.]+)", out)]
    assert len(losses) == 20
    assert losses[0] == pytest.approx(462.19, abs=0.5)
    assert losses[-1] == pytest.approx(9.0, abs=0.2)
    a, b, c, d = (
        float(v) for v in re.search(r"(\S+) \+ (\S+) \* P3\((\S+) \+ (\S+) \* x", out).groups()
    )
    assert b == pytest.approx(-2.2085, abs=0.01)
    assert d == pytest.approx(0.2555, abs=0.002)
    assert abs(a) < 1e-3
    assert abs(c) < 1e-3
    assert is_picture(tmp_path / "fit.png", 20_000)


@pytest.mark.slow
@pytest.mark.skipif(not has("matplotlib", "sklearn", "tqdm"), reason="needs the extra demo")
def test_digits(tmp_path):
    out = run_example("digits.py", "--out", "demo.png", cwd=tmp_path)
    assert "same gradients" in out
    accuracy = float(re.search(r"test accuracy: ([\d.]+)%", out)[1])
    assert accuracy >= 97
    assert is_picture(tmp_path / "demo.png", 60_000)


@pytest.mark.skipif(not has("matplotlib", "sklearn", "mpi4py"), reason="needs extras demo and mpi")
def test_distributed_digits(tmp_path):
    """Two ranks have the same loss curve as one."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("mpiexec is not installed beside Python")
    program = [sys.executable, str(EXAMPLES / "distributed_digits.py"), "--epochs", "2"]
    command = [str(mpiexec), "-n", "2", *program, "--out", "timeline.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(re.search(r"losses of one rank: (\S+)", done.stdout)[1]) <= 1e-6
    assert is_picture(tmp_path / "timeline.png", 20_000)


@pytest.mark.skipif(not has("onnx", "onnxruntime"), reason="needs onnx and onnxruntime")
def test_onnx_export(tmp_path):
    out = run_example("onnx_export.py", "--out", "bars.onnx", cwd=tmp_path)
    assert float(re.search(r"difference: (\S+),", out)[1]) < 1e-4
    assert float(re.search(r"onnxruntime: ([\d.]+)%", out)[1]) > 95


def test_heat(tmp_path):
    """The derivative of the error leads to a weight that beats both ends of the search."""
    out = run_example("heat.py", cwd=tmp_path)
    measured = float(re.search(r"measurement: ([\d.]+)", out)[1])
    errors = [float(e) for e in re.findall(r"weight: \S+ error: ([\d.]+)", out)]
    assert len(errors) == 10
    assert errors[-1] < 0.5 * measured
    assert errors[-1] < 0.9 * errors[2]
    assert errors[-1] <= min(errors) + 1e-4


@pytest.mark.skipif(not has("matplotlib"), reason="needs the extra demo")
def test_picture_of_a_graph(monkeypatch):
    """Every node behind a loss is drawn once, below the nodes that lead to it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import graph_picture

    import cograd as torch

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = torch.ones(3, requires_grad=True)
    loss = (Twice.apply(w) * w).sum()
    boxes = graph_picture.read_graph(loss, [("w", w)])
    graph_picture.layout(boxes)
    titles = sorted(b.title for b in boxes)
    assert titles == sorted(["Sum", "Mul", "Twice", "w"])
    assert {b.kind for b in boxes if b.title == "Twice"} == {"user"}
    (leaf,) = [b for b in boxes if b.title == "w"]
    assert leaf.depth == 3
    assert all(below.depth > b.depth for b in boxes for below in b.next)


def numbers_after(text, out):
    """Returns the numbers in the line of the output that begins with `text`."""
    (line,) = [x for x in out.splitlines() if x.startswith(text)]
    return [float(x) for x in re.findall(r"-?[\d.]+(?:e[-+]\d+)?", line.removeprefix(text))]


def drawn(*options):
    """Returns the options that draw a picture, if matplotlib is installed."""
    return options if has("matplotlib") else ()


def test_per_sample_gradients(tmp_path):
    out = run_example("per_sample_gradients.py", *drawn("--out", "p.png"), cwd=tmp_path)
    assert numbers_after("plain: error of the weights", out)[0] > 3
    assert numbers_after("clipped: error of the weights", out)[0] < 0.1
    assert not drawn("p") or is_picture(tmp_path / "p.png", 10_000)


def test_fit_ode(tmp_path):
    """The fit finds the rates within the noise, from a guess that is far off."""
    out = run_example("fit_ode.py", *drawn("--out", "p.png"), cwd=tmp_path)
    found = numbers_after("fitted rates:", out)
    assert found == pytest.approx(numbers_after("true rates:", out), rel=0.03)
    assert not drawn("p") or is_picture(tmp_path / "p.png", 20_000)


def test_pinn(tmp_path):
    out = run_example("pinn.py", *drawn("--out", "p.png"), cwd=tmp_path)
    assert numbers_after("largest error at t = 1:", out)[0] < 0.04
    assert not drawn("p") or is_picture(tmp_path / "p.png", 20_000)


def test_resume(tmp_path):
    """A resumed run has the bits of one without a break."""
    out = run_example("resume.py", *drawn("--out", "p.png"), cwd=tmp_path)
    assert "same losses: True, same parameters: True" in out
    assert numbers_after("resumed at step 90; loss at the end:", out)[0] < 0.1
    assert not drawn("p") or is_picture(tmp_path / "p.png", 20_000)


def test_find_nan(tmp_path):
    """The tutorial shows the explanation that the program prints."""
    out = run_example("find_nan.py", *drawn("--out", "p.png"), cwd=tmp_path)
    assert "faulty: [nan, nan], loss nan" in out
    assert "repaired: [2.0625, 0.0], loss 4.0000" in out
    page = (ROOT / "docs" / "tutorials" / "find_nan.md").read_text()
    said = re.search(r"^Function 'Sqrt.*?sqrt\(\)\.$", page, re.M | re.S)[0]
    assert " ".join(said.split()) in out
    assert not drawn("p") or is_picture(tmp_path / "p.png", 10_000)


def test_why_slow(tmp_path):
    """The profile names what takes the time, and the repaired loop computes the same."""
    out = run_example("why_slow.py", "--out", ".", cwd=tmp_path)
    total, kernel, _, interpreter, _, waiting, share = numbers_after("slow:", out)
    assert waiting > 25 and waiting > kernel and share > 20
    assert total == pytest.approx(kernel + interpreter + waiting, abs=0.01)
    assert numbers_after("fast:", out)[0] < total
    assert numbers_after("largest difference of the losses:", out)[0] < 1e-5
    assert "waiting" in (tmp_path / "slow.html").read_text()


def test_cpp_op(tmp_path):
    """The op passes its check, fits, and a package is written that holds an op."""
    options = ("--package", "soft_threshold", *drawn("--out", "p.png"))
    out = run_example("cpp_op.py", *options, cwd=tmp_path)
    assert "check of soft_threshold: 21 pass" in out
    error, count = re.search(r"largest error: ([\d.]+), not 0: (\d+)", out).groups()
    assert float(error) < 0.3 and int(count) == 4
    assert (tmp_path / "soft_threshold" / "pyproject.toml").exists()
    assert not drawn("p") or is_picture(tmp_path / "p.png", 10_000)


def test_a_script_for_torch(tmp_path):
    """It does not mention cograd, and runs under the launcher alone."""
    script = EXAMPLES / "for_torch" / "spirals.py"
    assert "import cograd" not in script.read_text()
    command = [sys.executable, "-m", "cograd", "run", str(script), *drawn("--out", "p.png")]
    env = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"correct: ([\d.]+)%", done.stdout)[1]) > 98
    assert not drawn("p") or is_picture(tmp_path / "p.png", 10_000)


def test_times_of_the_nodes_of_a_graph(tmp_path):
    out = run_example("fx_profile.py", cwd=tmp_path)
    assert 'norm = getattr(self, "1").norm(' in out or "_1_norm = " in out
    assert numbers_after("traced:", out)[0] == 8 and numbers_after("fused:", out)[0] == 6
    assert numbers_after("largest difference:", out)[0] < 1e-5


def test_newton_by_hessian_vector_products(tmp_path):
    steps, error = re.search(
        r"(\d+) Newton steps, .*: (\S+)", run_example("newton_krylov.py", cwd=tmp_path)
    ).groups()
    assert int(steps) < 100
    assert float(error) < 1e-6


def test_graph_network(tmp_path):
    options = ("--out", "graph.png") if has("matplotlib") else ()
    out = run_example("graph_network.py", *options, cwd=tmp_path)
    assert int(re.search(r"correct: (\d+) of 400", out)[1]) > 350
    assert not options or is_picture(tmp_path / "graph.png", 40_000)


def test_ensemble(tmp_path):
    out = run_example("ensemble.py", cwd=tmp_path)
    assert numbers_after("losses:", out)[0] < 5e-3
    known = [numbers_after(f"spread at {x}:", out)[0] for x in ("-2.0", " 2.0")]
    unknown = [numbers_after(f"spread at {x}:", out)[0] for x in (" 0.0", " 6.0")]
    assert max(known) < min(unknown)


def test_kepler(tmp_path):
    out = run_example("kepler.py", *drawn("--out", "p.png"), cwd=tmp_path)
    assert not drawn("p") or is_picture(tmp_path / "p.png", 20_000)
    assert numbers_after("energy: off by", out)[0] < 1e-12
    assert numbers_after("Newton's law: off by", out)[0] < 1e-11
    found = numbers_after("eccentricities from speeds alone:", out)
    assert found == pytest.approx([0.1, 0.5, 0.8], abs=1e-5)


@pytest.mark.skipif(not has("matplotlib"), reason="needs the extra demo")
def test_bayesian_regression(tmp_path):
    """The truth is within the posterior's range, and the chains agree."""
    out = run_example("bayesian_regression.py", "--out", "regression.png", cwd=tmp_path)
    assert numbers_after("R-hat:", out)[0] < 1.05
    assert 0.6 < numbers_after("acceptance:", out)[0] < 0.99
    for name in ("slope", "intercept", "scale"):
        mean, spread, truth = (
            float(v) for v in re.search(name + r": (\S+) \+- (\S+), truth (\S+)", out).groups()
        )
        assert abs(mean - truth) < 3 * spread < 0.5
    assert is_picture(tmp_path / "regression.png", 20_000)


@pytest.mark.skipif(not has("matplotlib", "sklearn"), reason="needs the extra demo")
def test_vae(tmp_path):
    """Two numbers for each image reconstruct it much better than the mean image."""
    out = run_example("vae.py", "--out", "vae.png", cwd=tmp_path)
    first, last = numbers_after("bound:", out)
    assert first < 0
    assert last > 13
    error, blind = numbers_after("error of a pixel:", out)
    assert error < 0.18 < 0.26 < blind
    assert is_picture(tmp_path / "vae.png", 40_000)


@pytest.mark.skipif(not has("matplotlib"), reason="needs the extra demo")
def test_gaussian_process(tmp_path):
    """The likelihood finds the noise and the length, and the band contains the truth."""
    out = run_example("gaussian_process.py", "--out", "process.png", cwd=tmp_path)
    first, last = numbers_after("log likelihood:", out)
    assert last > first + 10
    length, _, noise = numbers_after("length, height, noise:", out)
    assert 0.3 < length < 1.2
    assert 0.1 < noise < 0.3
    assert numbers_after("error outside of the gap:", out)[0] < 0.25
    assert numbers_after("covered:", out)[0] > 0.8
    assert is_picture(tmp_path / "process.png", 30_000)


@pytest.mark.slow
@pytest.mark.skipif(not has("matplotlib", "sklearn"), reason="needs the extra demo")
def test_dcgan(tmp_path):
    """The generated images resemble real ones, and vary as these do."""
    out = run_example("dcgan.py", "--epochs", "8", "--out", "dcgan.png", cwd=tmp_path)
    first, last = (float(v) for v in re.findall(r"real images: ([\d.]+)", out))
    assert last < 0.65 * first
    made, real = numbers_after("spread of a pixel, and of real ones:", out)
    assert made > 0.5 * real
    assert is_picture(tmp_path / "dcgan.png", 50_000)


def listings():
    for page in PAGES:
        blocks = FENCE.findall(page.read_text())
        if any("no-run" not in info for info, _ in blocks):
            yield pytest.param(page, id=str(page.relative_to(ROOT)))


@pytest.mark.parametrize("page", list(listings()))
@pytest.mark.keeps_nodes
def test_listings_of_a_page_run(page, tmp_path, monkeypatch):
    """The blocks of a page form one program; a block that declares an exception must raise it."""
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__main__"}
    text = page.read_text()
    for match in FENCE.finditer(text):
        info, code = match.groups()
        if "no-run" in info:
            continue
        line = text[: match.start()].count("\n") + 2
        program = compile("\n" * (line - 1) + code, str(page), "exec")
        raises = re.search(r"raises=(\w+)", info)
        expected = (
            pytest.raises(vars(__import__("builtins"))[raises[1]])
            if raises
            else contextlib.nullcontext()
        )
        warns = re.search(r"warns=(\w+)", info)
        warned = (
            pytest.warns(vars(__import__("builtins"))[warns[1]])
            if warns
            else contextlib.nullcontext()
        )
        with contextlib.redirect_stdout(io.StringIO()), expected, warned:
            exec(program, scope)


@pytest.mark.slow
@pytest.mark.skipif(not has("matplotlib", "sklearn"), reason="needs the extra demo")
def test_cnn(tmp_path):
    out = run_example("cnn.py", "--out", "cnn.png", cwd=tmp_path)
    assert float(re.search(r"test accuracy: ([\d.]+)%", out)[1]) >= 97.5
    assert is_picture(tmp_path / "cnn.png", 20_000)


@pytest.mark.parametrize("name", ["char_lstm.py", "char_transformer.py"])
def test_characters(name, tmp_path):
    """After few steps it predicts far better than by frequency; the picture is not empty."""
    drawn = has("matplotlib")
    arguments = ["--steps", "120", *(["--out", "text.png"] if drawn else [])]
    out = run_example(name, *arguments, cwd=tmp_path)
    by_frequency = numbers_after("by frequency alone:", out)[0]
    assert numbers_after("last losses:", out)[0] < by_frequency - 0.5
    assert len(out.split("The ", 1)[1]) >= 200
    if drawn:
        assert is_picture(tmp_path / "text.png", 20_000)


def test_the_cheat_sheet_is_right():
    """Each expression of the right column evaluates; the columns of NumPy agree with it."""
    import numpy as np

    import cograd as torch

    x = torch.rand(3, 4, dtype=torch.float64)
    scope = {"torch": torch, "x": x, "y": torch.rand(3, 4, dtype=torch.float64)}
    scope |= {"a": torch.eye(4) + 1, "i": torch.tensor([0, 2]), "m": x > 0.5}
    scope["f"] = lambda x: x.square().sum()
    text = (ROOT / "docs" / "cheat_sheet.md").read_text().split("(only-in-cograd)=")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    seen = 0
    for row in rows:
        for code in re.findall(r"`([^`]+)`", row[-1]):
            if code.startswith((".", "torch and")) or " = " in code:
                continue
            seen += 1
            value = eval(code, dict(scope))
            theirs = re.findall(r"`([^`]+)`", row[0])
            if len(row) != 3 or not isinstance(value, torch.Tensor) or len(theirs) != 1:
                continue
            if "rng" in theirs[0] or " = " in theirs[0] or "scipy" in theirs[0]:
                continue
            names = {k: v.numpy() for k, v in scope.items() if isinstance(v, torch.Tensor)}
            names |= {"np": np, "k": x.argsort(1).numpy(), "t": x}
            if "np.add.at" not in theirs[0]:
                expected = np.asarray(eval(theirs[0], names))
                assert value.numpy() == pytest.approx(expected), code
    assert seen > 60
