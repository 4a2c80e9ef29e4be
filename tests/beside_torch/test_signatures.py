# SPDX-License-Identifier: BSD-3-Clause
"""inspect.signature of all public callables."""

import inspect
import pydoc

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


def test_second_names_have_the_signature_of_the_first():
    for second, first in (("arccos", "acos"), ("clip", "clamp"), ("ger", "outer")):
        assert inspect.signature(getattr(torch, second)) == inspect.signature(getattr(torch, first))
    assert str(inspect.signature(torch.acos)) == "(input, *, out=None)"


def test_signatures_bind_what_the_functions_take():
    x = torch.ones(2, 3)
    for f, args, kwargs in (
        (torch.sum, (x,), {"dim": 1, "keepdim": True}),
        (torch.max, (x, 1), {"keepdim": True}),  # one of several: accepts anything
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
    assert "exp(input, *, out=None)" in pydoc.render_doc(torch.exp)
