# SPDX-License-Identifier: BSD-3-Clause
"""inspect.signature of all public callables."""

import importlib
import inspect
import pydoc
import re

import pytest

import cograd as torch

SPACES = {
    "cograd": torch,
    "Tensor": torch.Tensor,
    "Generator": torch.Generator,
    "UntypedStorage": torch.UntypedStorage,
    "SavedTensor": torch.autograd.SavedTensor,
    "functional": torch.nn.functional,
    "fft": torch.fft,
    "linalg": torch.linalg,
    "autograd": torch.autograd,
    "testing": torch.testing,
    "windows": torch.signal.windows,
}


def public_functions(space):
    for name in dir(space):
        f = getattr(space, name)
        if not name.startswith("_") and callable(f) and not isinstance(f, type):
            yield name, f


@pytest.mark.parametrize("space", SPACES)
def test_every_public_function_has_a_signature(space):
    failed, seen = [], 0
    for name, f in public_functions(SPACES[space]):
        seen += 1
        try:
            inspect.signature(f)
        except (TypeError, ValueError) as e:
            failed.append(f"{name}: {e}")
    assert not failed
    assert seen


PUBLIC = ("", ".nn.functional", ".linalg", ".fft", ".special")


def written_out(f):
    """False if a signature is (*args, **kwargs) and so says nothing."""
    kinds = [p.kind for name, p in inspect.signature(f).parameters.items() if name != "self"]
    P = inspect.Parameter
    return kinds != [P.VAR_POSITIONAL, P.VAR_KEYWORD]


def raises_always(f):
    return inspect.signature(f).return_annotation == "NoReturn"  # a name that is absent here


@pytest.mark.parametrize("name", PUBLIC)
def test_every_function_of_all_names_its_parameters(name):
    space = importlib.import_module(f"cograd{name}")
    functions = {n: getattr(space, n) for n in space.__all__}
    functions = {n: f for n, f in functions.items() if callable(f) and not isinstance(f, type)}
    assert len(functions) > 15
    assert [n for n, f in functions.items() if not written_out(f)] == []


def shown(f):
    """Returns the signature without the modules of its types."""
    return re.sub(r"\b(cograd|numbers|collections\.abc)\.", "", str(inspect.signature(f)))


def test_every_op_has_the_types_of_its_parameters_and_its_result():
    names = {
        name
        for record in torch._C._op_table()
        if not record["internal"]
        for name in [record["name"]]
        if type(getattr(torch, name, None)) is type(torch.add)
    }
    assert len(names) > 350
    for name in names:
        found = inspect.signature(getattr(torch, name))
        assert found.return_annotation is not inspect.Signature.empty, name
        for parameter in found.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, (name, parameter)
            assert not isinstance(parameter.annotation, str), (name, parameter)
        for line in getattr(torch, name).__doc__.splitlines()[::4]:
            assert re.fullmatch(rf"{name}\(.*: .*\) -> .+|{name}\(\) -> .+", line), line


def test_every_method_of_tensors_names_its_parameters():
    methods = dict(public_functions(torch.Tensor))
    vague = [n for n, f in methods.items() if not (raises_always(f) or written_out(f))]
    assert len(methods) > 500 and vague == []
    for name, text in {
        "view": "(input: Tensor, *size: int | Sequence[int], dtype: dtype | None = None) -> Tensor",
        "max": "(input: Tensor, dim: int | None = None, keepdim: bool = False, "
        "other: Tensor | None = None, *, out: Tensor | None | Sequence[Tensor] = None) "
        "-> Tensor | tuple[Tensor, Tensor]",
        "squeeze": "(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor",
        "round": "(input: Tensor, *, decimals: int | None = None, out: Tensor | None = None) "
        "-> Tensor",
        "to_sparse_csr": "(self: 'Tensor', dense_dim: 'int | None' = None) -> 'Tensor'",
    }.items():
        assert shown(getattr(torch.Tensor, name)) == text, name


def test_merged_signatures_bind_every_form():
    groups = {}
    for record in torch._C._op_table():
        if not record["internal"]:
            groups.setdefault(record["name"], []).append(record)
    merged = {name: records for name, records in groups.items() if len(records) > 1}
    assert len(merged) > 30
    for name, records in merged.items():
        f = getattr(torch, name, getattr(torch.Tensor, name, None))
        if f is None or f.__doc__.count(f"{name}(") < len(records):  # nn.functional's, or Python's
            continue
        for record in records:
            args = [a for a in record["args"] if not a["keyword_only"]]
            named = {a["name"]: 0 for a in record["args"] if a["keyword_only"]}
            try:
                inspect.signature(f).bind(*[0] * len(args), **named)
            except TypeError as error:
                pytest.fail(f"{name}{inspect.signature(f)}: {error}")


def test_second_names_have_the_signature_of_the_first():
    for second, first in (("arccos", "acos"), ("clip", "clamp"), ("ger", "outer")):
        assert inspect.signature(getattr(torch, second)) == inspect.signature(getattr(torch, first))
    assert shown(torch.acos) == "(input: Tensor, *, out: Tensor | None = None) -> Tensor"


def test_signatures_bind_what_the_functions_take():
    x = torch.ones(2, 3)
    for f, args, kwargs in (
        (torch.sum, (x,), {"dim": 1, "keepdim": True}),
        (torch.max, (x, 1), {"keepdim": True}),  # one of several forms
        (x.sum, (1,), {}),
        (x.max, (1,), {}),
        (x.size, (), {"dim": 0}),
        (x.requires_grad_, (), {"requires_grad": False}),
        (torch.Generator().manual_seed, (3,), {}),
        (torch.set_num_threads, (torch.get_num_threads(),), {}),
        (torch.promote_types, (torch.int8, torch.uint8), {}),
    ):
        inspect.signature(f).bind(*args, **kwargs)
        f(*args, **kwargs)
    inspect.signature(x.backward).bind(retain_graph=True, inputs=[x])
    with pytest.raises(TypeError):
        inspect.signature(torch.acos).bind()


def test_functions_are_routines_that_do_not_bind():
    class Holder:
        f = torch.exp

    x = torch.zeros(2)
    assert Holder.f is torch.exp and Holder().f is torch.exp
    assert torch.equal(Holder().f(x), torch.ones(2))
    assert inspect.isroutine(torch.exp) and inspect.isroutine(torch.Tensor.exp)
    assert "exp(input: Tensor, *, out: Tensor | None = None) -> Tensor" in pydoc.render_doc(
        torch.exp
    )
