# SPDX-License-Identifier: BSD-3-Clause
"""cograd under the name torch, in new interpreters, as programs use it."""

import os
import subprocess
import sys
import textwrap

import pytest

import cograd


def run(*arguments, cwd, check=True, **env):
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )
    assert not check or result.returncode == 0, result.stderr
    return result


def program(folder, text, name="program.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_every_module_is_the_same_object(tmp_path):
    program(
        tmp_path,
        """
        import sys
        import torch.nn.functional as F
        import torch, cograd
        from torch.utils.data import DataLoader, Dataset
        from torch.optim import lr_scheduler
        import torch.distributions.kl
        from torch.nn.modules.normalization import RMSNorm
        assert RMSNorm is cograd.nn.RMSNorm
        assert torch is cograd and F is cograd.nn.functional
        assert DataLoader is cograd.utils.data.DataLoader
        assert lr_scheduler is cograd.optim.lr_scheduler
        for name, module in list(sys.modules.items()):
            if name.startswith("torch.") and module.__name__ != "cograd._as_torch.tracing":
                assert module is sys.modules["cograd" + name[5:]], name
                spec = module.__spec__  # None: a part of the binary
                assert spec is None or spec.name == "cograd" + name[5:], name
        for name in list(sys.modules):
            if name.startswith("cograd."):
                try:
                    other = __import__("torch" + name[6:], fromlist=["x"])
                except ImportError as error:
                    raise AssertionError(name) from error
                assert other is sys.modules[name], name
        x = torch.ones(2, 3)
        print(torch.float32, x.dtype, x.shape, torch.Size([2]), x.type(), type(x), x.layout)
        cpu = torch.device("cpu")
        print(cpu, repr(cpu), torch.channels_last, torch.finfo(x.dtype).dtype)
        version = torch.__version__
        print(version, torch.version.__version__, version >= "2.0", version > (2, 13, 1))
        import importlib.metadata
        print(importlib.metadata.version("torch"))
        torch.manual_seed(0)
        print(torch.rand(2))
        """,
    )
    out = run("-m", "cograd", "run", "program.py", cwd=tmp_path).stdout.splitlines()
    assert out == [
        "torch.float32 torch.float32 torch.Size([2, 3]) torch.Size([2]) torch.FloatTensor "
        "<class 'torch.Tensor'> torch.strided",
        "cpu device(type='cpu') torch.channels_last float32",
        "2.13.0+cograd 2.13.0+cograd True False",
        "2.13.0+cograd",
        "tensor([0.4963, 0.7682])",  # torch's first numbers for seed 0
    ]


def test_metadata_names_torch_before_it_is_imported(tmp_path):
    program(
        tmp_path,
        """
        import importlib.metadata, importlib.util, sys
        assert importlib.util.find_spec("torch") is not None
        print(importlib.metadata.version("torch"), importlib.metadata.metadata("torch")["Name"])
        print(set(importlib.metadata.packages_distributions()["torch"]))
        assert "cograd" not in sys.modules
        import torch
        assert importlib.metadata.version("torch") == torch.__version__
        found = [d.version for d in importlib.metadata.distributions(name="torch")]
        assert found[0] == torch.__version__
        """,
    )
    out = run("-m", "cograd", "run", "program.py", cwd=tmp_path).stdout.splitlines()
    assert out == ["2.13.0+cograd torch", "{'torch'}"]


def test_metadata_of_an_alias_within_the_process(tmp_path):
    code = """
        import importlib.metadata, cograd
        cograd.install_as_torch()
        print(importlib.metadata.version("torch"), importlib.metadata.version("Torch"))
        """
    out = run(program(tmp_path, code), cwd=tmp_path).stdout
    assert out == "2.13.0+cograd 2.13.0+cograd\n"


def test_names_that_packages_ask_of_fx(tmp_path):
    program(
        tmp_path,
        """
        import torch, torch.fx
        from torch.fx import GraphModule, Proxy
        from torch.distributed.tensor import DTensor
        x = torch.ones(2)
        assert not isinstance(x, (Proxy, torch.fx.Node, DTensor))
        assert not isinstance(torch.nn.Linear(1, 1), GraphModule)
        @torch.fx.wrap
        def double(x):
            return x * 2
        assert double(x).tolist() == [2, 2] and torch.fx.wrap("double") == "double"
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.fx.passes.splitter_base import FxNetAccNodesFinder
        module = torch.fx.symbolic_trace(lambda x: double(torch.relu(x)))
        print(module.code.split()[0], "torch.relu(x)" in module.code, module(x).tolist())
        for call in (
            lambda: DTensor(x),
            lambda: torch.fx.wrap(3),
            lambda: make_fx(double),
            lambda: FxNetAccNodesFinder(module, None, False),
        ):
            try:
                call()
            except Exception as error:
                print(type(error).__name__, error)
        """,
    )
    out = run("-m", "cograd", "run", "program.py", cwd=tmp_path).stdout.splitlines()
    assert out[0] == 'torch.fx._symbolic_trace.wrap("__main___double") True [2.0, 2.0]'
    assert out[1].startswith("NotImplementedError distributed.tensor.DTensor: ")
    assert out[2].startswith("RuntimeError Unsupported type for global function!")
    assert out[3].startswith("NotImplementedError torch.fx.experimental.proxy_tensor.make_fx has")
    assert "make_fx and passes for compilers are not offered" in out[4]


def test_names_that_packages_ask_of_tracers_and_compilers(tmp_path):
    program(
        tmp_path,
        """
        import pickle, torch, torch.onnx
        import torch._dynamo
        from torch._subclasses.fake_tensor import FakeTensor, is_fake
        from torch.fx.experimental.proxy_tensor import get_proxy_mode
        from torch.nn.modules.utils import _pair, _reverse_repeat_tuple, _triple
        from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
        x = torch.ones(2)
        assert not is_fake(x) and not isinstance(x, FakeTensor) and get_proxy_mode() is None
        assert torch.torch is torch and x.dtype != torch.complex32 == torch.chalf
        assert not isinstance(2, (torch.SymInt, torch.SymFloat, torch.SymBool))
        assert not torch.onnx.is_in_onnx_export() and not torch._dynamo.is_compiling()
        assert _pair(3) == (3, 3) and _triple([1, 2, 3]) == (1, 2, 3)
        assert _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
        torch._dynamo.config.suppress_errors = True
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            assert torch._dynamo.config.suppress_errors
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.reset()
        asked = []
        def f(row):
            asked.append(torch._C._are_functorch_transforms_active())
            return row
        f(x), torch.vmap(f)(x)
        assert asked == [False, True]
        torch._assert_async(x[0])
        for call in (
            lambda: torch._assert_async(x[0] - 1, "wrong"),
            lambda: torch.zeros(2, dtype=torch.complex32),
            lambda: torch.SymInt(3),
            lambda: torch.onnx.dynamo_export(None, x),
        ):
            try:
                call()
            except Exception as error:
                print(type(error).__name__, str(error)[:60])
        """,
    )
    out = run("-m", "cograd", "run", "program.py", cwd=tmp_path).stdout.splitlines()
    assert out[0] == "RuntimeError wrong"
    assert out[1].startswith("TypeError zeros(): argument 'dtype' does not take complex32")
    assert out[2].startswith("NotImplementedError SymInt: symbolic sizes, make_fx")
    assert out[3].startswith("AttributeError module 'cograd.onnx' has no attribute 'dynamo_expo")


def test_a_script_is_run_as_python_runs_it(tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    program(
        folder,
        """
        import os, pickle, sys
        import helper
        import torch
        class Point:
            pass
        assert type(pickle.loads(pickle.dumps(Point()))) is Point
        print(sys.argv, sys.path[0], __name__, __file__, __spec__, __builtins__.__name__)
        print(sys.modules["__main__"].Point is Point, helper.x)
        raise SystemExit(7)
        """,
    )
    program(folder, "x = 5", "helper.py")
    script = os.path.join("inside", "program.py")
    plain = "import sys, types; sys.modules['torch'] = types.ModuleType('torch'); "
    result = run("-m", "cograd", "run", script, "-x", "--y=1", cwd=tmp_path, check=False)
    assert result.returncode == 7, result.stderr
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "torch.py").write_text(plain)
    want = run(script, "-x", "--y=1", cwd=tmp_path, check=False, PYTHONPATH=str(tmp_path / "site"))
    assert want.returncode == 7 and result.stdout == want.stdout


def test_a_traceback_shows_the_program_alone(tmp_path):
    program(tmp_path, "import torch\ndef f():\n    torch.ones(2) @ torch.ones(3)\nf()\n")
    result = run("-m", "cograd", "run", "program.py", cwd=tmp_path, check=False)
    assert result.returncode == 1 and "RuntimeError" in result.stderr
    assert result.stderr.startswith("Traceback") and result.stderr.count("File ") == 2


def test_modules_and_commands(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    program(package, "", "__init__.py")
    program(
        package, "import sys, torch\nprint(torch.float64, sys.argv[1:], __package__)", "__main__.py"
    )
    out = run("-m", "cograd", "run", "-m", "package", "a", cwd=tmp_path).stdout
    assert out == "torch.float64 ['a'] package\n"
    code = "import sys, torch; print(sys.warnoptions)"
    out = run("-W", "error", "-m", "cograd", "run", "-c", code, cwd=tmp_path).stdout
    assert out == "['error']\n"
    out = run("-m", "cograd", "run", "-m", "torch.utils.collect_env", cwd=tmp_path)
    assert "\nPython: 3." in out.stdout and not out.stderr
    assert (
        "can't open file" in run("-m", "cograd", "run", "no.py", cwd=tmp_path, check=False).stderr
    )
    assert run("-m", "cograd", "run", cwd=tmp_path, check=False).returncode == 2
    refused = run("-E", "-m", "cograd", "run", "x.py", cwd=tmp_path, check=False)
    assert refused.returncode == 2 and "PYTHONPATH" in refused.stderr


def test_options_of_the_interpreter_are_kept(tmp_path):
    text = """
        import sys, torch
        print(sys.flags.interactive, sys.flags.optimize, sys.stdout.write_through, sys.orig_argv)
        print(sys.flags.utf8_mode, sys._xoptions, sys.warnoptions)
    """
    program(tmp_path, text)
    before = ["-u", "-OX", "utf8=0", "-Xmine=5", "-Wignore", "-W", "error"]
    out = run(*before, "-m", "cograd", "run", "program.py", "-u", cwd=tmp_path).stdout.splitlines()
    assert out[0].startswith("0 1 True") and out[0].endswith(f"{[*before, 'program.py', '-u']}"[1:])
    assert out[1] == "0 {'utf8': '0', 'mine': '5'} ['ignore', 'error']"
    out = run("-quOm", "cograd", "run", "program.py", cwd=tmp_path).stdout
    assert out.startswith("0 1 True") and "'-quO', 'program.py']" in out


def test_a_reload_keeps_the_name(tmp_path):
    program(
        tmp_path,
        """
        import importlib, torch
        version = torch.__version__
        assert importlib.reload(torch) is torch and importlib.reload(torch) is torch
        assert torch.__version__ == version and type(torch.__version__) is type(version)
        assert torch.__name__ == "torch" and torch.torch is torch and torch.complex32
        """,
    )
    run("-m", "cograd", "run", "program.py", cwd=tmp_path)


def test_pickles_go_both_ways(tmp_path):
    values = """
        import copy, pickle
        def values(torch):
            x = torch.ones(2, dtype=torch.float16)
            return [x, torch.bool, x.shape, torch.device("cpu"), torch.strided, torch.Size(),
                    torch.channels_last, torch.nn.Linear(1, 1), torch.nn.Parameter(x)]
        def check(found, torch):
            want = values(torch)
            assert [type(v) for v in found] == [type(v) for v in want]
            assert found[1] is torch.bool and found[0].dtype is torch.float16
            assert found[2:7] == want[2:7] and torch.equal(found[0], want[0])
            assert found[4] is torch.strided and found[6] is torch.channels_last
    """
    program(tmp_path, values, "both.py")
    write = "for n in range(6): pickle.dump(values(torch), open(f'{n}.pkl', 'wb'), n)"
    read = "for n in range(6): check(pickle.load(open(f'{n}.pkl', 'rb')), torch)"
    copies = "check(copy.deepcopy(values(torch)), torch)"
    plain = "from both import *; import cograd as torch\n"
    alias = "from both import *; import torch\n"
    for end in (write, read, copies):
        run("-Wignore", "-m", "cograd", "run", "-c", alias + end, cwd=tmp_path)
    run("-Wignore", "-c", plain + read, cwd=tmp_path)
    run("-Wignore", "-c", plain + write, cwd=tmp_path)
    run("-Wignore", "-m", "cograd", "run", "-c", alias + read, cwd=tmp_path)


def test_processes_inherit_it(tmp_path):
    program(
        tmp_path,
        """
        import subprocess, sys
        import torch
        from torch.utils.data import DataLoader, Dataset
        class Squares(Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, i):
                assert str(torch.float32) == "torch.float32" and "+cograd" in torch.__version__
                return torch.tensor(float(i * i))
        def double(rank, x):
            x.mul_(2)
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                loader = DataLoader(Squares(), 2, num_workers=1, multiprocessing_context=method)
                print([batch.tolist() for batch in loader])
            x = torch.ones(2).share_memory_()
            torch.multiprocessing.spawn(double, (x,), nprocs=1)
            print(x)
            code = "import torch, cograd; print(torch is cograd, torch.int8)"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            print(done.stdout)
        """,
    )
    out = run("-m", "cograd", "run", "program.py", cwd=tmp_path).stdout
    batches = "[[0.0, 1.0], [4.0, 9.0]]\n"
    assert out == 2 * batches + "tensor([2., 2.])\nTrue torch.int8\n\n"


def test_install_in_a_program(tmp_path):
    code = """
        import sys
        import cograd
        before = cograd.nn.Linear(2, 2)
        assert str(cograd.float32) == "cograd.float32" and cograd.get_rng() == "philox"
        path = list(sys.path)
        cograd.install_as_torch()
        cograd.install_as_torch()
        import torch
        from torch.nn import Linear
        assert isinstance(before, Linear) and torch.get_rng() == "torch"
        assert len(sys.path) == len(path) + 1
        class Mine(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                print(func.__name__)
                return super().__torch_function__(func, types, args, kwargs or {})
        largest = torch.tensor([1, 3]).max(0)
        assert repr(largest).startswith("torch.return_types.max("), largest
        y = torch.ones(2).as_subclass(Mine) + 1
        assert type(y) is Mine
        import torch.fx.passes
        try:
            import torch.there_is_no_such
        except ModuleNotFoundError as error:
            print(error)
        try:
            torch.smm
        except AttributeError as error:
            print("of sparse tensors there is" in str(error))
        """
    out = run(program(tmp_path, code), cwd=tmp_path).stdout
    assert out == "add\nNo module named 'torch.there_is_no_such'\nTrue\n"


def test_it_refuses_when_torch_is_loaded(tmp_path):
    program(tmp_path, "value = 1", "torch.py")
    code = "import torch, cograd; cograd.install_as_torch()"
    failed = run("-c", code, cwd=tmp_path, check=False)
    assert failed.returncode == 1 and "torch is already loaded" in failed.stderr
    assert "torch.py" in failed.stderr


def test_pytest_plugin(tmp_path):
    program(
        tmp_path,
        """
        import torch
        from torch.testing import assert_close
        def test_it():
            assert_close(torch.ones(2) + 1, torch.full((2,), 2.0))
            assert str(torch.bool) == "torch.bool"
        """,
        "test_it.py",
    )
    out = run("-m", "pytest", "-q", "-p", "cograd.pytest_as_torch", "-p", "no:cacheprovider",
              cwd=tmp_path).stdout  # fmt: skip
    assert "1 passed" in out


def test_saved_files_are_archives(tmp_path):
    program(
        tmp_path,
        """
        import io, zipfile
        import torch
        model = torch.nn.Linear(2, 2)
        file = io.BytesIO()
        torch.save(model, file)
        assert zipfile.is_zipfile(file)
        file.seek(0)
        assert isinstance(torch.load(file, weights_only=False), torch.nn.Linear)
        torch.save(model.state_dict(), "weights")
        assert zipfile.is_zipfile("weights")
        torch.save(model.state_dict(), "weights.safetensors")
        assert not zipfile.is_zipfile("weights.safetensors")
        model.load_state_dict(torch.load("weights", map_location="cpu"))
        model.weight.no_decay = True
        torch.save([torch.strided, torch.Size([1]), torch.bool, torch.Tensor, model.weight], "all")
        """,
    )
    run("-m", "cograd", "run", "program.py", cwd=tmp_path)
    found = cograd.load(tmp_path / "all")
    assert found[0] is cograd.strided and found[1:4] == [(1,), cograd.bool, cograd.Tensor]
    assert found[4].no_decay and type(found[4]) is cograd.nn.Parameter


@pytest.mark.parametrize(
    ("a", "b", "less"),
    [("2.13.0+cograd", "2.13", False), ("1.9", "1.10", True), ("2.0a1", "2.0", True),
     ("2.0", (2, 1), True), ("2.13.0", "2.13", False)],
)  # fmt: skip
def test_versions_compare_by_numbers(a, b, less):
    from cograd.torch_version import TorchVersion

    version = TorchVersion(a)
    assert (version < b) == less and (version >= b) != less
    assert (version == b) == (not less and not version > b)
    assert version == a and hash(version) == hash(a) and version.startswith(a[:2])
    assert version != "words" and (version != (9, 9))


def test_safetensors_finds_its_torch(tmp_path):
    pytest.importorskip("safetensors")
    program(
        tmp_path,
        """
        import torch
        from safetensors import safe_open
        from safetensors.torch import load_file, load_model, save_file, save_model
        save_file({"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2).bfloat16()}, "x.st")
        found = load_file("x.st")
        assert torch.equal(found["a"], torch.arange(6.0).reshape(2, 3))
        assert found["b"].dtype is torch.bfloat16 and found["b"].tolist() == [1, 1]
        with safe_open("x.st", "pt") as file:
            assert file.get_slice("a")[:, 1:].tolist() == [[1, 2], [4, 5]]
        model, twin = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        save_model(model, "m.st")
        assert load_model(twin, "m.st") == (set(), [])
        assert torch.equal(model.weight, twin.weight)
        """,
    )
    run("-m", "cograd", "run", "program.py", cwd=tmp_path)
