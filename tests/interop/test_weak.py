# SPDX-License-Identifier: BSD-3-Clause
"""`utils.weak`: references and dicts that find tensors by identity and do not keep them."""

import copy
import gc

import pytest

import cograd as torch
from cograd.utils.weak import (
    TensorWeakRef,
    WeakIdKeyDictionary,
    WeakIdRef,
    WeakTensorKeyDictionary,
)


def test_references_are_equal_for_the_same_object():
    x, y = torch.ones(2), torch.ones(2)
    a, b = WeakIdRef(x), WeakIdRef(x)
    assert a == b and hash(a) == hash(b) and a() is x
    assert a != WeakIdRef(y) and a != x
    gone = []
    c = WeakIdRef(y, gone.append)
    del y
    gc.collect()
    assert c() is None and gone == [c]
    assert c == c and c != a and c != WeakIdRef(x)


def test_a_reference_does_not_keep_the_tensor():
    x = torch.ones(2)
    reference = TensorWeakRef(x)
    assert reference() is x
    del x
    gc.collect()
    assert reference() is None
    with pytest.raises(TypeError, match="expected a Tensor, got int"):
        TensorWeakRef(3)


def test_a_reference_lives_as_long_as_the_graph_holds_its_tensor():
    """The graph holds a leaf: its object, with its identity, stays."""
    x = torch.ones(2, requires_grad=True)
    d = WeakTensorKeyDictionary({x: "x"})
    y = x * 2
    del x
    gc.collect()
    assert list(d.values()) == ["x"]
    assert next(iter(d)) is y.grad_fn.next_functions[0][0].variable
    del y
    gc.collect()
    assert len(d) == 0


def test_items_are_found_by_identity_and_go_with_their_keys():
    x, y = torch.ones(2), torch.ones(2)
    d = WeakTensorKeyDictionary()
    d[x], d[y] = 1, 2
    d[x] = 3
    assert len(d) == 2 and d[x] == 3 and d[y] == 2 and x in d
    assert torch.ones(2) not in d and 3 not in d
    assert d.get(torch.ones(2), "none") == "none"
    with pytest.raises(KeyError):
        d[torch.ones(2)]
    with pytest.raises(KeyError):
        del d[torch.ones(2)]
    del y
    gc.collect()
    assert len(d) == 1 and [(k is x, v) for k, v in d.items()] == [(True, 3)]
    assert [r() is x for r in d.keyrefs()] == [True]
    assert d.pop(x) == 3 and len(d) == 0
    assert d.setdefault(x, 4) == 4 and d.setdefault(x, 5) == 4
    key, value = d.popitem()
    assert key is x and value == 4
    with pytest.raises(KeyError):
        d.popitem()


def test_keys_may_go_during_an_iteration():
    keys = [torch.ones(1) * i for i in range(5)]
    d = WeakTensorKeyDictionary((k, i) for i, k in enumerate(keys))
    seen = []
    for i in d.values():
        seen.append(i)
        del keys[:]
        gc.collect()
        assert len(d) <= 1  # the loop itself may hold the current key
    assert seen == [0]
    assert len(d) == 0 and not d.data


def test_copies_joins_and_comparison():
    x, y = torch.ones(2), torch.zeros(2)
    d = WeakIdKeyDictionary({x: [1]})
    shallow, deep = copy.copy(d), copy.deepcopy(d)
    assert shallow[x] is d[x] and deep[x] == d[x] and deep[x] is not d[x]
    assert d == deep and d == WeakIdKeyDictionary([(x, [1])]) and d != WeakIdKeyDictionary()
    both = d | {y: 2}
    assert len(both) == 2 and both[y] == 2 and len(d) == 1
    assert ({x: 0, y: 2} | d)[x] == [1]
    d |= WeakIdKeyDictionary({y: 3})
    assert d[y] == 3
    d.clear()
    assert not list(d)


def test_other_references_can_be_chosen():
    made = []

    class Counted(WeakIdRef):
        def __init__(self, key, callback=None):
            super().__init__(key, callback)
            made.append(self)

    x = torch.ones(1)
    d = WeakIdKeyDictionary(ref_type=Counted)
    d[x] = 1
    assert d[x] == 1 and len(made) == 2 and isinstance(d.keyrefs()[0], Counted)
