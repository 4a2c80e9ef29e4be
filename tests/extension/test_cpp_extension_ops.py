# SPDX-License-Identifier: BSD-3-Clause
"""cograd.utils.cpp_extension and cograd.ops with real ops: loading, reloading, gradients."""

import ast
import inspect
import json
import os
import pydoc
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import cograd as torch
from cograd.autograd import gradcheck
from cograd.utils import cpp_extension
from cograd.utils.cpp_extension.__main__ import main

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)

AXPBY = """
// a * x + y
cograd::Tensor axpby(const cograd::Tensor& x, const cograd::Tensor& y, double a = 1.5) {
  return x * a + y;
}
"""
CUBE = """
using namespace cograd;
using namespace cograd::autograd;
// The third power.
struct Cube : Function<Cube> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double scale = 1.0) {
    ctx->save_for_backward({x});
    ctx->saved_data["scale"] = scale;
    return x * x * x * scale;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    Tensor x = ctx->get_saved_variables()[0];
    return {grads[0] * (3.0 * ctx->saved_data["scale"].to_double()) * x * x, Tensor()};
  }
};
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Returns a cache for the tests of this file whose op names differ."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def root(shared, monkeypatch):
    monkeypatch.setenv("COGRAD_EXTENSIONS_DIR", str(shared))
    return shared


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def value_source(name, value):
    """Returns an op library whose op returns x + value."""
    return (
        "#include <cograd/extension.h>\n"
        f"static cograd::Tensor plus(const cograd::Tensor& x) {{ return x + {value}; }}\n"
        f'COGRAD_LIBRARY({name}, m) {{ m.def("plus", &plus, "x"); }}\n'
    )


# ---------------------------------------------------------------------------- functions


def test_function_with_names_defaults_and_docstring():
    module = cpp_extension.load_inline("t_axpby", AXPBY, functions="axpby")
    x, y = torch.ones(2), torch.full((2,), 2.0)
    assert module.axpby(x, y).tolist() == [3.5, 3.5]
    assert module.axpby(y=y, x=x, a=3).tolist() == [5.0, 5.0]
    assert torch.ops.t_axpby.axpby(x, y, a=0.0).tolist() == [2.0, 2.0]
    assert "a * x + y" in module.axpby.__doc__
    line = "axpby(x: Tensor, y: Tensor, a: float = 1.5) -> Tensor"
    assert module.axpby.__doc__.startswith(line + "\n") and line in pydoc.render_doc(module.axpby)
    shown = inspect.signature(module.axpby)
    assert shown.return_annotation is torch.Tensor and shown.parameters["a"].annotation is float
    assert module.__name__ == "t_axpby"
    with pytest.raises(TypeError):
        module.axpby(x)
    with pytest.raises(TypeError):
        module.axpby(x, y, alpha=1.0)


def test_functions_as_dict_and_list():
    code = (
        "cograd::Tensor f(cograd::Tensor x) { return x; }\nint64_t g(int64_t n) { return n + 1; }"
    )
    module = cpp_extension.load_inline(
        "t_list", [code, "bool h() { return true; }"], None, None, ["f", "g", "h"]
    )
    assert module.g(41) == 42
    assert module.h() is True
    module = cpp_extension.load_inline("t_dict", code, functions={"g": "Adds one."})
    assert "Adds one." in module.g.__doc__
    assert not hasattr(module, "f")


def test_function_struct_has_a_gradient():
    module = cpp_extension.load_inline("t_cube", CUBE, functions=["Cube"])
    x = torch.linspace(-1, 1, 4, dtype=torch.float64, requires_grad=True)
    y = module.Cube(x, scale=2.0)
    assert "Cube" in type(y.grad_fn).__name__ or "Cube" in y.grad_fn.name()
    assert gradcheck(lambda t: module.Cube(t, 0.5), (x,))
    assert "third power" in module.Cube.__doc__


def test_macros_and_own_registration():
    code = """
    #define STRING_(x) #x
    #define STRING(x) STRING_(x)
    static std::string name() { return STRING(COGRAD_EXTENSION_NAME); }
    COGRAD_LIBRARY(COGRAD_EXTENSION_NAME, m) { m.def("name", &name); }
    """
    assert cpp_extension.load_inline("t_macro", code).name() == "t_macro"


def test_stub_stands_beside_the_module():
    module = cpp_extension.load_inline("t_axpby", AXPBY, functions="axpby")
    stub = Path(module.__file__).with_suffix(".pyi").read_text()
    ast.parse(stub)
    assert "def axpby(x: Tensor, y: Tensor, a: float = 1.5) -> Tensor:" in stub


def test_module_is_small_and_without_python():
    module = cpp_extension.load_inline("t_axpby", AXPBY, functions="axpby")
    assert os.path.getsize(module.__file__) < 100_000
    if shutil.which("nm"):
        out = subprocess.run(
            ["nm", "-D", module.__file__], capture_output=True, text=True, check=True
        ).stdout
        assert "Py" not in out


def test_nothing_registered_is_explained():
    with pytest.raises(ImportError, match="registered no op: list functions in `functions`"):
        cpp_extension.load_inline("t_nothing", "int unused() { return 1; }")


def test_unknown_function_is_explained():
    with pytest.raises(cpp_extension.CompileError) as info:
        cpp_extension.load_inline("t_unknown", "int f() { return 1; }", functions=["f", "g"])
    assert "functions names 'g', but the sources do not declare it" in str(info.value)


def test_missing_namespace_is_explained():
    with pytest.raises(cpp_extension.CompileError) as info:
        cpp_extension.load_inline(
            "t_namespace", "Tensor f(const Tensor& x) { return x * 2; }", functions=["f", "g"]
        )
    text = str(info.value)
    assert "write cograd::Tensor, or `using namespace cograd;`" in text
    assert "names 'g', but the sources do not declare it" in text and "names 'f'" not in text


def test_duplicate_name_of_another_extension_is_refused(tmp_path):
    one = write(tmp_path / "one.cpp", value_source("t_shared", 1))
    two = write(tmp_path / "two.cpp", value_source("t_shared", 2))
    module = cpp_extension.load("t_owner_one", str(one))
    with pytest.raises(ImportError, match="t_shared::plus"):
        cpp_extension.load("t_owner_two", str(two))
    assert module.plus(torch.zeros(1)).item() == 1
    assert torch.ops.t_shared.plus(torch.zeros(1)).item() == 1


# ---------------------------------------------------------------------------- reloading


def test_edit_reload_and_back_in_one_process(tmp_path):
    header = write(tmp_path / "value.h", "#define VALUE 1.0\n")
    file = write(tmp_path / "a.cpp", '#include "value.h"\n' + value_source("t_reload", "VALUE"))
    x = torch.zeros(1)
    first = cpp_extension.load("t_reload", str(file))
    assert (first.plus(x).item(), torch.ops.t_reload.plus(x).item()) == (1, 1)
    write(header, "#define VALUE 2.0\n")
    second = cpp_extension.load("t_reload", str(file))
    assert (second.plus(x).item(), torch.ops.t_reload.plus(x).item()) == (2, 2)
    assert first.plus(x).item() == 1, "the old module keeps its code"
    write(header, "#define VALUE 1.0\n")
    third = cpp_extension.load("t_reload", str(file))
    assert (third.plus(x).item(), torch.ops.t_reload.plus(x).item()) == (1, 1)
    assert cpp_extension.load("t_reload", str(file)) is third


def test_names_that_go_away_go_away(tmp_path):
    code = "int64_t one() { return 1; }\nint64_t two() { return 2; }\n"
    cpp_extension.load_inline("t_shrink", code, functions=["one", "two"])
    assert torch.ops.t_shrink.two() == 2
    cpp_extension.load_inline("t_shrink", code, functions=["one"])
    assert torch.ops.t_shrink.one() == 1
    with pytest.raises(AttributeError):
        torch.ops.t_shrink.two


def test_cached_in_a_new_process_is_fast(root):
    code = (
        "import time, cograd\n"
        "imports = time.process_time()\n"
        "from cograd.utils import cpp_extension\n"
        f"source = {AXPBY!r}\n"
        "start = time.process_time()\n"
        "m = cpp_extension.load_inline('t_fast', source, functions='axpby')\n"
        "print((time.process_time() - start) / imports)\n"
    )

    def run():
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return float(result.stdout)

    run()
    # Relative to the CPU time of starting Python and importing cograd: 0.3, on any machine.
    assert min(run() for _ in range(5)) < 0.6


# ---------------------------------------------------------------------------- cograd.ops


def test_load_library_and_namespaces(tmp_path):
    file = write(tmp_path / "a.cpp", value_source("t_lib", 3))
    path = cpp_extension.load("t_lib_build", str(file), is_python_module=False)
    copy = shutil.copy(path, tmp_path / "libown.so")
    code = (
        "import cograd\n"
        f"cograd.ops.load_library({str(copy)!r})\n"
        f"cograd.ops.load_library({str(copy)!r})\n"
        "print(cograd.ops.t_lib.plus(cograd.zeros(1)).item())\n"
        "print('t_lib' in dir(cograd.ops), dir(cograd.ops.t_lib), cograd.ops.t_lib)\n"
        "print(cograd.ops.loaded_libraries)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = out.stdout.splitlines()
    assert float(lines[0]) == 3
    assert lines[1] == "True ['plus'] <cograd.ops.t_lib: plus>"
    assert "libown.so" in lines[2]


def test_rebuilt_library_replaces_its_ops(tmp_path):
    target = tmp_path / "libfresh.so"
    for value in (1, 2):
        file = write(tmp_path / "a.cpp", value_source("t_fresh", value))
        build = cpp_extension.load(
            "t_fresh_build",
            str(file),
            is_standalone=False,
            is_python_module=False,
            build_directory=tmp_path / f"b{value}",
        )
        # A new process: the object loaded above already owns the names.
        code = (
            "import cograd, shutil, sys\n"
            "for path in sys.argv[1:]:\n"
            f"    shutil.copy(path, {str(target)!r} + '.new')\n"
            f"    __import__('os').replace({str(target)!r} + '.new', {str(target)!r})\n"
            f"    cograd.ops.load_library({str(target)!r})\n"
            "    print(cograd.ops.t_fresh.plus(cograd.zeros(1)).item())\n"
        )
        write(tmp_path / f"path{value}", build)
    paths = [(tmp_path / f"path{v}").read_text() for v in (1, 2, 1)]
    out = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=False
    )
    assert out.stdout.split() == ["1.0", "2.0", "1.0"], out.stderr


def test_errors_of_load_library(tmp_path):
    with pytest.raises(ImportError, match=r"nothing\.so: No such file"):
        torch.ops.load_library(tmp_path / "nothing.so")
    broken = write(tmp_path / "broken.so", "this is no ELF file")
    with pytest.raises(ImportError, match=r"broken\.so"):
        torch.ops.load_library(broken)


def test_a_missing_library_says_where_it_was_looked_for(tmp_path, monkeypatch):
    package = tmp_path / "project" / "t_lost"
    package.mkdir(parents=True)
    write(tmp_path / "project" / "pyproject.toml", "")
    write(package / "__init__.py", "")
    write(package / "_other.so", "")
    monkeypatch.syspath_prepend(tmp_path / "project")
    import t_lost

    with pytest.raises(ImportError) as e:
        torch.ops.load_library("_ops.so", package="t_lost")
    text = str(e.value)
    assert f"{package / '_ops.so'} (the directory has _other.so)" in text
    assert f"{tmp_path / 'project'} is a source tree" in text
    more = tmp_path / "installed"
    t_lost.__path__.append(str(more))
    with pytest.raises(ImportError, match="there is no directory .*installed"):
        torch.ops.load_library("_ops.so", package="t_lost")
    with pytest.raises(ImportError, match="package='t_nowhere' is not imported; pass __name__"):
        torch.ops.load_library("_ops.so", package="t_nowhere")
    with pytest.raises(ImportError, match="package='shutil' is not a package"):
        torch.ops.load_library("_ops.so", package="shutil")
    file = write(tmp_path / "a.cpp", value_source("t_found", 3))
    more.mkdir()
    built = cpp_extension.load("t_found_build", str(file), is_python_module=False)
    shutil.copy(built, more / "_ops.so")
    code = (
        "import sys, types, cograd\n"
        "package = sys.modules['t_two'] = types.ModuleType('t_two')\n"
        "package.__path__ = sys.argv[1:]\n"
        "cograd.ops.load_library('_ops.so', package='t_two')\n"
        "print(cograd.ops.t_found.plus(cograd.zeros(1)).item())\n"
    )
    command = [sys.executable, "-c", code, str(package), str(more)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "3.0\n"


def test_a_missing_dependency_says_where_it_was_looked_for(tmp_path, monkeypatch):
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler gcc or clang")
    write(tmp_path / "dep.c", "int dep(void) { return 1; }")
    write(tmp_path / "op.c", "int dep(void); int op(void) { return dep(); }")
    shared = [compiler, "-shared", "-fPIC"]
    subprocess.run([*shared, "dep.c", "-o", "libt_dep.so"], cwd=tmp_path, check=True)
    link = ["-L.", "-lt_dep", "-Wl,-rpath,$ORIGIN/../lib", "-o", "op.so"]
    subprocess.run([*shared, "op.c", *link], cwd=tmp_path, check=True)
    (tmp_path / "libt_dep.so").unlink()
    monkeypatch.setenv("LD_LIBRARY_PATH", "/t_elsewhere")
    with pytest.raises(ImportError) as e:
        torch.ops.load_library(tmp_path / "op.so")
    text = str(e.value)
    assert "needs libt_dep.so, which was looked for in" in text
    assert f"{tmp_path.parent / 'lib'} (the run path of op.so)" in text
    assert "/t_elsewhere (LD_LIBRARY_PATH)" in text


def test_ops_can_be_imported_by_name():
    with pytest.raises(ModuleNotFoundError, match="no op of this namespace is registered"):
        from cograd.ops.t_imported import axpby
    cpp_extension.load_inline("t_imported", AXPBY, functions="axpby")
    from cograd.ops.t_imported import axpby

    assert axpby is torch.ops.t_imported.axpby
    import cograd.ops.t_imported as module

    assert module is torch.ops.t_imported and module is sys.modules["cograd.ops.t_imported"]
    assert module.__name__ == "cograd.ops.t_imported"
    with pytest.raises(ImportError, match=r"cograd\.ops\.t_imported\.axpbi: .*did you mean"):
        from cograd.ops.t_imported import axpbi  # noqa: F401
    scope = {}
    exec("from cograd.ops.t_imported import *", scope)
    assert scope["axpby"] is axpby
    cpp_extension.load_inline("t_imported", AXPBY.replace("x * a", "x * a * 2"), functions="axpby")
    from cograd.ops.t_imported import axpby as fresh

    assert fresh is not axpby and fresh is torch.ops.t_imported.axpby


def test_python_ops_can_be_imported_by_name():
    @torch.library.custom_op("t_imported_python::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    from cograd.ops.t_imported_python import twice as found

    assert found(torch.ones(1)).item() == 2


def test_unknown_op_names_near_ones():
    cpp_extension.load_inline("t_axpby", AXPBY, functions="axpby")
    with pytest.raises(AttributeError, match="did you mean t_axpby::axpby"):
        torch.ops.t_axpby.axpbi
    with pytest.raises(AttributeError, match="did you mean t_axpby::axpby"):
        torch.ops.t_axpbi.axpby
    with pytest.raises(AttributeError, match="was its library loaded"):
        torch.ops.qqqqqq.zzzzzzzzz
    assert not hasattr(torch.ops.t_axpby, "axpbi")
    assert not hasattr(torch.ops, "__wrapped__")


# ---------------------------------------------------------------------------- C, debug, doctor


def test_op_written_in_c(tmp_path):
    text = r"""
    #include <cograd/c_api.h>
    static cograd_status twice(cograd_context ctx, void* user, const cograd_value* args, size_t n,
                               cograd_results results) {
      (void)ctx; (void)user; (void)n;
      cograd_value v = args[0];
      v.u.integer *= 2;
      return cograd_results_push(results, &v);
    }
    __attribute__((constructor)) static void init(void) {
      static cograd_op_desc d;
      d.struct_size = sizeof d;
      d.library = "t_c";
      d.name = "twice";
      d.schema = "(int n) -> int";
      d.forward = twice;
      d.abi_major = COGRAD_ABI_MAJOR;
      d.abi_minor = COGRAD_ABI_MINOR;
      cograd_op_register(&d);
    }
    """
    module = cpp_extension.load("t_c", str(write(tmp_path / "a.c", text)))
    assert module.twice(21) == 42


def test_debug_checks_accessors():
    code = """
    double peek(const cograd::Tensor& x, int64_t i) { return x.accessor<double, 1>()[i]; }
    """
    module = cpp_extension.load_inline("t_debug", code, functions="peek", debug="undefined")
    x = torch.arange(3, dtype=torch.float64)
    assert module.peek(x, 2) == 2
    with pytest.raises(IndexError):
        module.peek(x, 3)


def test_doctor_builds_a_probe(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "ok    probe: an op was compiled, loaded and called" in out
    assert "extensions can be built" in out


def test_loads_from_several_threads():
    errors = []

    def work(i):
        try:
            code = f"int64_t number() {{ return {i}; }}"
            module = cpp_extension.load_inline(f"t_thread{i % 2}", code, functions="number")
            assert module.number() == i
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


PYBIND11 = """
#include <algorithm>
#include <pybind11/pybind11.h>
static cograd::Tensor twice(const cograd::Tensor& x) { return x * VALUE; }
PYBIND11_MODULE(COGRAD_EXTENSION_NAME, m) {
  m.def("twice", &twice, "Two times x.", pybind11::arg("x"));
  m.def("same", [](pybind11::object o) { return o; });
  m.def("turned", [](cograd::variable_list l) { return std::reverse(l.begin(), l.end()), l; });
  m.attr("value") = VALUE;
}
"""


@pytest.mark.slow
def test_pybind11_module(root):
    """The first build makes a precompiled header, which the second uses; headers are in the key."""
    pytest.importorskip("pybind11")
    code = PYBIND11.replace("VALUE", "2.0")
    module = cpp_extension.load_inline("t_pybind", code)
    assert module.twice(torch.ones(2)).tolist() == [2.0, 2.0]
    assert module.same("x") == "x"
    assert [t.item() for t in module.turned([torch.tensor(1), torch.tensor(2)])] == [2, 1]
    assert "Two times x." in module.twice.__doc__
    stub = Path(module.__file__).with_suffix(".pyi").read_text()
    assert "def twice(x: Tensor) -> Tensor:" in stub
    headers = list((root / ".precompiled").glob("*/*.gch"))
    assert len(headers) == 1
    again = cpp_extension.load_inline("t_pybind", PYBIND11.replace("VALUE", "3.0"), verbose=True)
    assert again.twice(torch.ones(1)).item() == 3
    assert module.twice(torch.ones(1)).item() == 2
    for made in (module, again):
        record = json.loads((Path(made.__file__).parent / "build.json").read_text())
        assert any(d[0].endswith("pybind11/cast.h") for d in record["deps"])
    assert cpp_extension.load_inline("t_pybind", code).twice(torch.ones(1)).item() == 2
    assert main(["list"]) == 0
    assert main(["prune"]) == 0
    assert headers[0].exists()
    cpp_extension.remove_extension_h_precompiler_headers()
    assert not headers[0].exists()


@pytest.mark.slow
def test_functions_of_a_source_that_uses_pybind11(root):
    pytest.importorskip("pybind11")
    code = """
    // Counts.
    int64_t count(pybind11::list items, int64_t start = 0) { return start + items.size(); }
    """
    module = cpp_extension.load_inline("t_pylist", code, functions=["count"])
    assert module.count([1, 2], start=3) == 5
    assert "Counts." in module.count.__doc__
