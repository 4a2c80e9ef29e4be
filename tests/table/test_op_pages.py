# SPDX-License-Identifier: BSD-3-Clause
"""The pages of the ops: each has an example, and each example prints what its page shows."""

import doctest
import importlib.util
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import cograd

EXT = Path(__file__).resolve().parents[2] / "docs" / "_ext"
if sys.version_info < (3, 11):
    pytest.skip("the pages' notes are read with tomllib (3.11)", allow_module_level=True)
sys.path.insert(0, str(EXT))
import op_pages  # noqa: E402

PAGES = op_pages.pages(cograd._C._op_table())
NOTES = op_pages.notes()
CLASSES = op_pages.notes(op_pages.CLASS_EXAMPLES)
SMALLER = ["autograd", "autograd.forward_ad", "autograd.function", "autograd.functional"]
SMALLER += ["autograd.graph", "autograd.profiler", "distributions", "distributions.constraints"]
SMALLER += [
    "distributions.utils",
    "func",
    "library",
    "testing",
    "utils.cpp_extension",
    "utils.data",
]
# They compile, or empty the user's cache: docs/cpp_extension.md and other tests run them.
COMPILING = {"utils.cpp_extension.load", "utils.cpp_extension.load_inline"}
COMPILING |= {"utils.cpp_extension.remove_extension_h_precompiler_headers"}
SPACES = {
    "nn": cograd.nn,
    "nn.utils.parametrize": cograd.nn.utils.parametrize,
    "nn.utils.prune": cograd.nn.utils.prune,
    "nn.utils.rnn": cograd.nn.utils.rnn,
    "optim": cograd.optim,
    "optim.lr_scheduler": cograd.optim.lr_scheduler,
    "optim.swa_utils": cograd.optim.swa_utils,
}
REFERENCE = {
    f"{space}.{name}": getattr(module, name)
    for space, module in SPACES.items()
    for name in module.__all__
    if isinstance(getattr(module, name), type)
}
KEYS = {"math", "gradient", "shape", "errors", "source", "example"}


def test_notes_are_of_ops_that_exist_and_sorted():
    assert set(NOTES) <= set(PAGES)
    assert list(NOTES) == sorted(NOTES)
    assert {k for note in NOTES.values() for k in note} <= KEYS


def test_every_op_has_an_example():
    assert [n for n in PAGES if "example" not in NOTES.get(n, {})] == []


def test_every_public_class_and_function_has_an_example():
    """Classes of nn and optim have one, and everything public in the smaller modules."""
    wanted = [
        f"{space}.{name}"
        for space in ("nn", "optim", "optim.lr_scheduler")
        for name in public(space)
        if isinstance(op_pages.named(f"{space}.{name}"), type)
    ]
    wanted += [f"{space}.{name}" for space in SMALLER for name in public(space)]
    examples = {id(op_pages.named(name)) for name in CLASSES}
    values = {name: op_pages.named(name) for name in wanted}
    constants = (types.ModuleType, float)  # and FunctionMeta, which is type
    lacking = {
        name
        for name, value in values.items()
        if id(value) not in examples and value is not type and not isinstance(value, constants)
    }
    assert lacking == COMPILING


def public(space):
    return importlib.import_module(f"cograd.{space}").__all__


def sections(text):
    """Returns the summary and the lines of each section of a class docstring by title."""
    lines = inspect.cleandoc(text).splitlines()
    found, title = {"": lines[1:2]}, None
    for line in lines:
        if re.fullmatch(r"[A-Z]\w+:", line):
            title = line[:-1]
            found[title] = []
        elif title and line.startswith("    "):
            found[title].append(line[4:])
    return lines[0], found


def entries(lines):
    """Returns the names that a section explains; several may share an entry."""
    heads = [re.match(r"(\w+(?:, \w+)*): \S", line) for line in lines]
    return [name for head in heads if head for name in head[1].split(", ")]


def parameters(cls):
    """Returns the constructor's named parameters; RNN, LSTM and GRU pass theirs to RNNBase."""
    names = [n for n, p in inspect.signature(cls).parameters.items() if p.kind not in (2, 4)]
    if cls in (cograd.nn.RNN, cograd.nn.LSTM, cograd.nn.GRU):
        names = [*inspect.signature(cograd.nn.RNNBase).parameters][1:]
        names += ["nonlinearity"] if cls is cograd.nn.RNN else []
        names.remove("proj_size") if cls is not cograd.nn.LSTM else None
    return names


@pytest.mark.parametrize("name", REFERENCE)
def test_class_reference(name):
    """A class has a summary, an entry for exactly its arguments, and a layer also shapes."""
    cls = REFERENCE[name]
    assert "__doc__" in vars(cls)
    assert vars(cls)["__doc__"]
    summary, found = sections(cls.__doc__)
    assert summary.endswith(".")
    assert found[""] in ([], [""])
    explained = entries(found.get("Args", []))
    assert [n for n in parameters(cls) if n not in explained] == []
    assert [n for n in explained if n not in [*parameters(cls), "args", "kwargs"]] == []
    assert len(set(explained)) == len(explained)
    # docutils treats a line such as "p. The rest" or an entry "C." as a list item.
    text = inspect.cleandoc(cls.__doc__)
    assert re.findall(r"^ *\w[.)] |: \w\.$", text, re.MULTILINE) == []
    if issubclass(cls, cograd.nn.Module) and cls.forward is not cograd.nn.Module.forward:
        assert [line for line in found.get("Shape", []) if line.startswith("- ")]


# Classes whose examples call no module of theirs: these contain what the user passes, ...
HOLDERS = ["Buffer", "Module", "ModuleDict", "ModuleList", "Parameter", "ParameterDict"]
HOLDERS += ["ParameterList", "Sequential", "UninitializedBuffer", "UninitializedParameter"]
# ... and these are created here.
BY_HAND = {
    "nn.NLLLoss2d": lambda: cograd.nn.NLLLoss2d(cograd.ones(2)),
    "nn.RNNBase": lambda: cograd.nn.RNNBase("LSTM", 3, 5, proj_size=2),
    "nn.RNNCellBase": lambda: cograd.nn.RNNCellBase(3, 5, True, 4),
}
LAYERS = [n for n in REFERENCE if n.startswith("nn.") and n in CLASSES]
LAYERS = [n for n in LAYERS if n.removeprefix("nn.") not in HOLDERS]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.filterwarnings("ignore:NLLLoss2d has been deprecated")
def test_class_reference_names_the_state(name):
    """The shapes name all parameters and buffers that a layer has after its first call."""
    made = []
    names = op_pages.names_in_examples()
    before = cograd.nn.Module.__call__

    def call(self, *args, **kwargs):
        made.append((type(self), self))  # a lazy one changes its type in the call
        return before(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch, cograd.random.fork_rng():
        patch.setattr(cograd.nn.Module, "__call__", call)
        for example in doctest.DocTestParser().get_examples(CLASSES[name]["example"]):
            exec(compile(example.source, name, "single"), names)
    shapes = "\n".join(sections(REFERENCE[name].__doc__)[1].get("Shape", []))
    module = next((m for cls, m in made if cls is REFERENCE[name]), None) or BY_HAND[name]()
    own = {**module._parameters, **module._buffers}
    own = {re.sub(r"_l\d+(_reverse)?$", "_l0", k) for k, v in own.items() if v is not None}
    own -= {"_random_samples"}
    assert [key for key in own if not re.search(rf"\b{key}\b", shapes)] == []


def check(name, text):
    cograd.manual_seed(0)
    test = doctest.DocTestParser().get_doctest(text, op_pages.names_in_examples(), name, None, 0)
    assert test.examples
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


@pytest.mark.parametrize("name", [n for n in PAGES if "example" in NOTES.get(n, {})])
def test_example(name):
    """The example runs, prints what it shows, and calls the op."""
    assert name.removeprefix("nn.functional.") in NOTES[name]["example"]
    check(name, NOTES[name]["example"])


@pytest.mark.parametrize("name", CLASSES)
def test_class_example(name):
    assert name.split(".")[-1] in CLASSES[name]["example"]
    assert op_pages.named(name) is not None
    check(name, CLASSES[name]["example"])


def test_a_page_says_what_the_declaration_does():
    text = op_pages.page("add", PAGES["add"], NOTES["add"])
    assert "cograd.add(input, other, *, alpha=1, out=None)" in text
    assert "Tensor.add_(other, *, alpha=1)" in text
    assert "bfloat16" in text
    assert "complex (complex64, complex128)" in text
    assert "broadcast" in text


def test_forms_with_the_same_arguments_share_a_table():
    text = op_pages.page("conv2d", PAGES["conv2d"], {})
    assert text.count("| argument |") == 1
    assert "| `padding` | int or sequence of ints or str | `0` |" in text
    assert op_pages.page("max", PAGES["max"], {}).count("| argument |") == 3


def test_every_page_says_its_shapes_and_dtypes():
    texts = {n: op_pages.page(n, rs, NOTES.get(n, {})) for n, rs in PAGES.items()}
    assert [n for n, text in texts.items() if "\nShapes\n: " not in text] == []
    assert [n for n, text in texts.items() if "\nDtypes\n: " not in text] == []
    assert "the input's shape" in texts["erf"] and "Holomorphic" not in texts["erf"]
    assert "Holomorphic" in texts["exp"] and "common shape" in texts["add"]


def test_formulas_can_be_drawn_without_the_network():
    maths = pytest.importorskip("docutils.utils.math")
    from docutils.utils.math import latex2mathml

    formulas = [note["math"] for note in NOTES.values() if "math" in note]
    assert len(formulas) > 90
    for formula in formulas:
        try:
            assert "<math" in latex2mathml.tex2mathml(formula.strip(), as_block=True)
        except maths.MathError as error:
            pytest.fail(f"{error}: {formula}")


TOOL = Path(__file__).resolve().parents[2] / "tools" / "op_examples.py"


def load_tool():
    spec = importlib.util.spec_from_file_location("op_examples", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tool_fills_in_output_and_exceptions():
    run = load_tool().run
    block = ">>> for i in range(2):\n...     print(i)\n"
    trace = "Traceback (most recent call last):\n    ...\nValueError: "
    raising = f'>>> raise ValueError("a")\n{trace}'
    assert run(f"{block}>>> 1 + 1\n{raising}b\n") == f"{block}...\n0\n1\n>>> 1 + 1\n2\n{raising}a\n"
    with pytest.raises(ValueError, match="not shown"):
        run('>>> raise ValueError("not shown")\n')


def test_the_tool_leaves_other_notes_as_they_are():
    """In a process of its own: some examples register ops, which a process can do once."""
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
