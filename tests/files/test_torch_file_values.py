# SPDX-License-Identifier: BSD-3-Clause
"""Contents of torch's files besides tensors: attributes, storages, classes, layouts."""

import copy
import pickle

import pytest
import torch_files
from test_torch_files import (
    RECORDED,
    STORAGE,
    TENSOR,
    archive_of,
    in_torch,
    needs_torch,
    through_file,
)

import cograd as torch
from cograd import nn
from cograd.serialization import FileError

BOTH = pytest.mark.parametrize("weights_only", [True, False])


def check_attributes(found):
    for name, t in found.items():
        assert t.no_decay == name and t.tags == [1, {"a": None}] and t.other.tolist() == [5, 5]
    assert type(found["parameter"]) is nn.Parameter and found["parameter"].requires_grad
    assert found["tensor"].requires_grad and found["tensor"].is_leaf
    assert found["uint16"].dtype is torch.uint16
    assert isinstance(found["buffer"], nn.Buffer) and found["buffer"].persistent


def check_values(found):
    assert isinstance(found["storage"], torch.storage.TypedStorage)
    assert found["storage"].dtype is torch.float32 and found["storage"].tolist() == [0, 1, 2]
    assert found["again"] is found["storage"]
    found["storage"][1] = 7
    assert found["base"].tolist() == [0, 7, 2], "memory is shared"
    assert found["layout"] is torch.strided
    assert found["keys"] == {(1,): 2, ((),): 3, torch.device("cpu"): 4}
    assert type(next(iter(found["keys"]))) is torch.Size
    assert found["classes"] == torch_files.values(torch)["classes"]


@BOTH
def test_what_torch_has_written(weights_only):
    attributes, values = torch.load(RECORDED / "values.pt", weights_only=weights_only)
    check_attributes(attributes)
    check_values(values)


@BOTH
def test_there_and_back(weights_only):
    check_attributes(through_file(torch_files.with_attributes(torch), weights_only=weights_only))
    check_values(through_file(torch_files.values(torch), weights_only=weights_only))


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_torch_reads_attributes_and_values(tmp_path):
    torch.save(torch_files.with_attributes(torch), tmp_path / "a.pt")
    torch.save(torch_files.values(torch), tmp_path / "v.pt")
    in_torch(f"""
import torch
for safe in (True, False):
    for name, t in torch.load({str(tmp_path / "a.pt")!r}, weights_only=safe).items():
        assert t.no_decay == name and t.tags == [1, {{"a": None}}] and t.other.tolist() == [5, 5]
        assert isinstance(t, torch.nn.Parameter) == (name == "parameter"), name
        assert isinstance(t, torch.nn.Buffer) == (name == "buffer"), name
    v = torch.load({str(tmp_path / "v.pt")!r}, weights_only=safe)
    assert v["storage"].dtype is torch.float32 and v["storage"].tolist() == [0, 1, 2]
    assert v["layout"] is torch.strided
    assert v["keys"] == {{torch.Size([1]): 2, (torch.Size([]),): 3, torch.device("cpu"): 4}}
    assert v["classes"][:3] == [torch.nn.Parameter, torch.Tensor, torch.Size]
    assert v["classes"][3:5] == [torch.UntypedStorage, torch.TypedStorage]
    assert v["classes"][6] is set
""")


def test_modules_keep_the_marks_of_their_parameters():
    linear = nn.Linear(2, 2)
    linear.weight.no_decay = True
    for made in (
        pickle.loads(pickle.dumps(linear)),
        through_file(linear, weights_only=False),
        torch.load(RECORDED / "marked.pt", weights_only=False),
    ):
        assert made.weight.no_decay is True and not hasattr(made.bias, "no_decay")
        assert type(made.weight) is nn.Parameter


def test_lazy_parameters_stay_lazy():
    lazy = through_file(nn.LazyLinear(3), weights_only=False)
    assert type(lazy.weight) is nn.UninitializedParameter
    assert lazy(torch.ones(2, 5)).shape == (2, 3)


class Marked(torch.Tensor):
    """A class that a program defines."""


def test_subclasses_of_trusted_files():
    from cograd._files.objects import _from_type

    def plain():
        return torch.ones(2, requires_grad=True)

    made = _from_type(plain, Marked, (), {"scale": 3})
    assert type(made) is Marked and made.scale == 3 and made.requires_grad and made.is_leaf


PLAIN = TENSOR + STORAGE + b"K\x00K\x02\x85K\x01\x85\x89NtR"
TYPED = b"ctorch._tensor\n_rebuild_from_type_v2\n(" + TENSOR[:-1] + b"ctorch\nTensor\n"
TYPED += b"(" + STORAGE + b"K\x00K\x02\x85K\x01\x85\x89Nt"
OF_PARAMETER = b"ctorch._utils\n_rebuild_parameter_with_state\n(" + PLAIN + b"\x89N"


def text(word):
    return b"X" + len(word).to_bytes(4, "little") + word.encode()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        *((b"}" + text(name) + b"K\x01s", f"attribute '{name}'") for name in (
            "__class__", "__dict__", "__array_interface__", "data", "grad", "shape",
            "requires_grad",
        )),
        (b"}K\x01K\x01s", "has a name of type int"),
        (b"N}" + text("a") + b"K\x01s\x86", "attributes in slots"),
        (b"K\x01", "attributes are a int"),
        (b"]K\x01a", "attributes are a list"),
        (TENSOR[:-1], "the function torch._utils._rebuild_tensor_v2"),
        (b"}" + text("a") + TENSOR[:-1] + b"s", "the function torch._utils._rebuild_tensor_v2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "before", [TYPED, OF_PARAMETER, PLAIN], ids=["typed", "parameter", "build"]
)
def test_attributes_that_are_not_set(before, state, message):
    end = b"b." if before is PLAIN else b"tR."
    with pytest.raises(FileError, match=message):
        torch.load(archive_of(before + state + end, **{"0": b"\0" * 16}))


@pytest.mark.parametrize(
    "before", [TYPED, OF_PARAMETER, PLAIN], ids=["typed", "parameter", "build"]
)
def test_attributes_that_are_set(before):
    end = b"b." if before is PLAIN else b"tR."
    for state in (b"}" + text("foo") + b"K\x03s", b"}" + text("foo") + b"K\x03sN\x86"):
        assert torch.load(archive_of(before + state + end, **{"0": b"\0" * 16})).foo == 3


FUNCTION = b"ctorch._utils\n_rebuild_tensor_v2\n"


@pytest.mark.parametrize(
    "body",
    [
        b"%s.",
        b"]%sa.",
        b"](%s%se.",
        b"}K\x01%ss.",
        b"}(K\x01%su.",
        b"K\x01%s\x86.",
        b"%s\x85\x85\x85.",
        b"(%st.",
        b"ccollections\nOrderedDict\n]K\x01%s\x86a\x85R.",
        b"ccollections\nOrderedDict\n)R}" + text("_metadata") + b"%ssb.",
    ],
)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (FUNCTION, "the function torch._utils._rebuild_tensor_v2 as a value"),
        (b"ctorch._tensor\n_rebuild_from_type_v2\n", "the function torch._tensor._rebuild_from"),
        (b"c_codecs\nencode\n", "the function _codecs.encode as a value"),
        (b"ctorch\nFloatStorage\n", "the class torch.FloatStorage as a value"),
    ],
    ids=["rebuild", "typed", "encode", "storage"],
)
def test_functions_are_no_values(body, value, message):
    with pytest.raises(FileError, match=message):
        torch.load(archive_of(body.replace(b"%s", value)))


def test_functions_do_not_reach_allowed_classes():
    name = f"c{__name__}\nReceiver\n".encode()
    with torch.serialization.safe_globals([Receiver]):
        assert torch.load(archive_of(name + b"K\x01\x85R.")).given == 1
        for end in (b"\x85R.", b"\x85\x85R.", b"\x85\x81.", b"b."):
            begin = b")R" if end == b"b." else b""
            with pytest.raises(FileError, match="as a value"):
                torch.load(archive_of(name + begin + FUNCTION + end))


class Receiver:
    def __init__(self, given=None):
        self.given = given


def test_layouts_of_others_are_refused():
    call = b"ctorch.serialization\n_get_layout\n%s\x85R."
    with pytest.raises(FileError, match="the layout 'torch.jagged', expected 'torch.strided'"):
        torch.load(archive_of(call % text("torch.jagged")))
    with pytest.raises(FileError, match="the layout of a int, expected"):
        torch.load(archive_of(call % b"K\x01"))


FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


@pytest.mark.parametrize("name", ["strided", *FORMATS])
def test_layouts_and_memory_formats_are_one_each(name):
    value = getattr(torch, name)
    assert copy.deepcopy([value])[0] is value and copy.copy(value) is value
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) is value
    for weights_only in (True, False):
        assert through_file([value, value], weights_only=weights_only) == [value, value]
        assert through_file(value, weights_only=weights_only) is value
