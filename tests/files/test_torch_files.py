# SPDX-License-Identifier: BSD-3-Clause
"""torch's files: reading with a restricted unpickler, and writing so that torch can read."""

import datetime
import importlib
import io
import math
import os
import pickle
import random
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch_files

import cograd as torch
from cograd import nn
from cograd.serialization import FileError

RECORDED = Path(__file__).parents[1] / "recorded" / "torch_files"
# A Python that has torch: this one, or the one that the variable names.
TORCH = sys.executable if find_spec("torch") else os.environ.get("COGRAD_TORCH_PYTHON")
needs_torch = pytest.mark.skipif(TORCH is None, reason="torch is not installed")


def through_file(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, format="torch")
    file.seek(0)
    return torch.load(file, **options)


def check_all(obj):
    """Checks the objects that make.py wrote to all.pt."""
    for name in torch_files.NAMES:
        dtype = getattr(torch, name)
        assert obj["dtypes"][name].dtype == dtype
        assert torch.equal(obj["dtypes"][name], torch.arange(6).reshape(2, 3).to(dtype))
    assert obj["view"].tolist() == torch.arange(12.0).reshape(3, 4).t()[1:].tolist()
    obj["base"][5] = 99
    assert obj["view"][0, 1].item() == 99, "memory is shared"
    obj["base"][5] = 5
    assert isinstance(obj["parameter"], nn.Parameter) and obj["parameter"].requires_grad
    assert obj["leaf"].requires_grad and obj["leaf"].is_leaf and not obj["base"].requires_grad
    assert isinstance(obj["size"], torch.Size) and obj["size"] == (1, 2)
    assert obj["dtype"] is torch.float16 and obj["device"] == torch.device("cpu")
    assert type(obj["ordered"]) is OrderedDict and list(obj["ordered"]) == ["b", "a"]
    assert obj["others"][:7] == [1, -2.5, "text", None, True, b"\x00ab", 2**70]
    assert obj["others"][7:] == [(1, (2,)), {3, 4}, 1 + 2j]
    assert obj["empty"].shape == (0, 3) and obj["scalar"].item() == 3.5
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert not model.load_state_dict(obj["state"]).missing_keys
    assert obj["state"]._metadata["1"] == {"version": 2}
    torch.optim.Adam(model.parameters()).load_state_dict(obj["optimizer"])


def test_a_file_that_torch_has_written():
    check_all(torch.load(RECORDED / "all.pt"))
    check_all(torch.load(str(RECORDED / "all.pt"), mmap=True))
    with open(RECORDED / "all.pt", "rb") as file:
        check_all(torch.load(file, map_location=lambda storage, place: storage))


def test_there_and_back():
    check_all(through_file(torch_files.everything(torch)))
    counts = through_file({"c": Counter("aab"), "f": frozenset([1])})
    assert counts["c"] == Counter("aab") and counts["f"] == frozenset([1])
    twice = [1]
    got = through_file([twice, twice, float("inf"), -0.0])
    assert got[0] is got[1] and got[2] == math.inf and math.copysign(1, got[3]) == -1


def in_torch(code):
    """Runs the code with the Python that has torch."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    result = subprocess.run(
        [TORCH, "-c", code], capture_output=True, text=True, env=env, check=False
    )
    assert result.returncode == 0, result.stderr


@needs_torch
def test_torch_reads_what_is_written(tmp_path):
    path = tmp_path / "all.pt"
    torch.save(torch_files.everything(torch), path)
    code = f"""
import torch
for options in ({{}}, {{"mmap": True}}):
    obj = torch.load({str(path)!r}, weights_only=True, **options)
    for name, value in obj["dtypes"].items():
        assert value.dtype == getattr(torch, name), name
        assert torch.equal(value, torch.arange(6).reshape(2, 3).to(value.dtype)), name
    obj["base"][5] = 99
    assert obj["view"][0, 1] == 99
    assert isinstance(obj["parameter"], torch.nn.Parameter) and obj["leaf"].requires_grad
    assert obj["size"] == torch.Size([1, 2]) and obj["dtype"] is torch.float16
    assert obj["others"][5:] == [b"\\x00ab", 2**70, (1, (2,)), {{3, 4}}, 1 + 2j]
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    model.load_state_dict(obj["state"])
    torch.optim.Adam(model.parameters()).load_state_dict(obj["optimizer"])
    assert obj["state"]._metadata["1"] == {{"version": 2}}
"""
    in_torch(code)


ONE_START = """
for name in ("shorter_first", "longer_first"):
    short, long = torch.load(f"{folder}/{name}.pt", weights_only=True)
    if name == "longer_first":
        short, long = long, short
    assert short.tolist() == [0, 1, 2, 3, 4] and long.tolist() == list(range(10)), name
"""


def test_arrays_of_one_start_and_two_lengths(tmp_path):
    array = np.arange(10, dtype=np.float32)
    short, long = torch.from_numpy(array[:5]), torch.from_numpy(array)
    torch.save([short, long], tmp_path / "shorter_first.pt")
    torch.save([long, short], tmp_path / "longer_first.pt")
    exec(ONE_START, {"torch": torch, "folder": tmp_path})
    if TORCH is not None:
        in_torch(f"import torch\nfolder = {str(tmp_path)!r}\n{ONE_START}")


def test_the_suffix_says_the_format(tmp_path):
    for suffix in (".pt", ".pth", ".ckpt", ".bin"):
        torch.save({"a": torch.ones(2)}, tmp_path / f"x{suffix}")
        assert zipfile.is_zipfile(tmp_path / f"x{suffix}")
        assert torch.load(tmp_path / f"x{suffix}")["a"].tolist() == [1, 1]
    torch.save({"a": torch.ones(2)}, tmp_path / "x")
    assert not zipfile.is_zipfile(tmp_path / "x")
    torch.save({"a": torch.ones(2)}, tmp_path / "y", format="torch")
    assert zipfile.is_zipfile(tmp_path / "y")
    with pytest.raises(ValueError, match="'safetensors' or 'torch'"):
        torch.save(1, tmp_path / "z", format="json")


def test_names_that_are_no_text(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"\xff.pt")
    torch.save(torch.ones(2), path)
    assert torch.load(path).tolist() == [1, 1]
    with zipfile.ZipFile(os.fsdecode(path)) as archive:
        assert "archive/data.pkl" in archive.namelist()


def test_bytes_of_storages_are_aligned(tmp_path):
    torch.save([torch.ones(3), torch.ones(5, dtype=torch.int8)], tmp_path / "x.pt")
    data = (tmp_path / "x.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            name, extra = (
                int.from_bytes(data[info.header_offset + k :][:2], "little") for k in (26, 28)
            )
            assert (info.header_offset + 30 + name + extra) % 64 == 0


def test_mapped_tensors_are_not_written_back(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.zeros(1000), path)
    before = path.read_bytes()
    x = torch.load(path, mmap=True)
    x += 1
    assert path.read_bytes() == before and x.sum().item() == 1000
    with open(path, "rb") as file, pytest.raises(ValueError, match="must be a path"):
        torch.load(file, mmap=True)


def test_modules_need_an_explicit_word(tmp_path):
    path = tmp_path / "model.pt"
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    torch.save(model, path)
    with pytest.raises(FileError, match="refers to cograd.nn.modules.*weights_only=False"):
        torch.load(path)
    try:  # programs that fall back catch torch's exception
        torch.load(path)
    except pickle.UnpicklingError:
        other = torch.load(path, weights_only=False)
    x = torch.randn(4, 2)
    assert torch.equal(other(x), model(x))
    whole = torch.load(RECORDED / "module.pt", weights_only=False)  # torch's classes
    assert isinstance(whole[0], nn.Linear) and whole(torch.ones(2, 3)).shape == (2, 4)


def test_whole_objects_that_torch_has_written():
    found = torch.load(RECORDED / "whole.pt", weights_only=False)
    rows = torch_files.LAYERS.strip().splitlines()
    assert len(found["layers"]) == len(rows)
    for row, (module, inputs, expected) in zip(rows, found["layers"], strict=True):
        assert type(module).__module__.startswith("cograd.nn."), row
        torch.testing.assert_close(module(*inputs), expected, msg=row)
        assert type(module).__name__ in repr(module) and module.state_dict() is not None
    assert torch.equal(torch.rand(2, generator=found["generator"]), found["next"])
    assert isinstance(found["max"], torch.return_types.max)
    assert found["max"].values.tolist() == [2, 3] and found["max"].indices.tolist() == [1, 1]
    assert found["lazy"](torch.ones(2, 5)).shape == (2, 3) and type(found["lazy"]) is nn.Linear
    assert found["list"][0].item() == found["dict"]["a"].item() == 1
    assert found["normal"].mean.item() == 0


def test_hooks_of_loaded_modules_run():
    rows = torch.load(RECORDED / "whole.pt", weights_only=False)["layers"]
    module = next(m for m, _, _ in rows if "weight_g" in m.state_dict())
    x = torch.ones(1, 3)
    before = module(x)
    with torch.no_grad():
        module.weight_g.mul_(2)
    torch.testing.assert_close(module(x) - module.bias, 2 * (before - module.bias))


# torch.nn.modules.X of torch 2.13 has these layers.
PLACES = {
    "activation": "LogSoftmax MultiheadAttention RReLU Softmax Softmax2d Softmin",
    "batchnorm": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d SyncBatchNorm",
    "channelshuffle": "ChannelShuffle",
    "container": "ParameterDict ParameterList",
    "conv": (
        "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
        "LazyConvTranspose3d"
    ),
    "distance": "CosineSimilarity PairwiseDistance",
    "dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "flatten": "Flatten Unflatten",
    "fold": "Fold Unfold",
    "instancenorm": (
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d"
    ),
    "linear": "LazyLinear",
    "loss": (
        "CTCLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss2d "
        "TripletMarginWithDistanceLoss"
    ),
    "normalization": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    "pixelshuffle": "PixelShuffle PixelUnshuffle",
    "sparse": "Embedding EmbeddingBag",
    "upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
}


@pytest.mark.parametrize("place", PLACES)
def test_torchs_places_of_layers(place):
    module = importlib.import_module(f"cograd.nn.modules.{place}")
    for name in PLACES[place].split():
        assert getattr(module, name) is getattr(nn, name)
        assert name in module.__all__


class Point:
    def __init__(self, x=0):
        self.x = x


def test_classes_that_a_program_allows():
    with pytest.raises(FileError, match="Point"):
        through_file(Point(3))
    with torch.serialization.safe_globals([Point]):
        assert torch.serialization.get_safe_globals() == [Point]
        assert through_file(Point(3)).x == 3
    assert torch.serialization.get_safe_globals() == []


def test_names_that_an_archive_needs_and_load_refuses(tmp_path):
    ask = torch.serialization.get_unsafe_globals_in_checkpoint
    path = tmp_path / "all.pt"
    content = {"point": Point(3), "kind": Point, "t": torch.ones(1), "date": datetime.date(2, 2, 2)}
    for protocol in (2, 4):  # GLOBAL, and STACK_GLOBAL with strings of the memo
        torch.save(content, path, pickle_protocol=protocol)
        assert ask(path) == [f"{__name__}.Point", "datetime.date"]
        with open(path, "rb") as file, torch.serialization.safe_globals([Point]):
            assert ask(file) == ["datetime.date"]
    torch.save({"t": torch.ones(1)}, path)
    assert ask(str(path)) == []
    path.write_bytes(b"hello")
    with pytest.raises(FileError, match="all.pt"):
        ask(path)


def test_other_kinds_of_files(tmp_path):
    with pytest.raises(FileError, match="before 1.6"):
        torch.load(RECORDED / "legacy.pt")
    with pytest.raises(FileError, match="TorchScript program"):
        torch.load(RECORDED / "script.pt")
    (tmp_path / "old.tar").write_bytes(b"\0" * 257 + b"ustar" + b"\0" * 250)
    with pytest.raises(FileError, match="tar archive"):
        torch.load(tmp_path / "old.tar")
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("readme", b"x")
    with pytest.raises(FileError, match="no data.pkl"):
        torch.load(tmp_path / "x.pt")


def archive_of(text, **entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", text)
        for name, data in entries.items():
            archive.writestr(f"a/data/{name}", data)
    file.seek(0)
    return file


TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n("
STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ"


@pytest.mark.parametrize(
    "text",
    [
        b"cos\nsystem\n(X\x04\0\0\0truetR.",
        b"cbuiltins\neval\n(X\x011tR.",
        b"ctorch\nload\n)R.",
        TENSOR + STORAGE + b"K\x00K\x64\x85K\x01\x85\x89NtR.",
        TENSOR + STORAGE + b"K\x00J\xff\xff\xff\xff\x85K\x01\x85\x89NtR.",
        TENSOR + STORAGE + b"K\x00K\x02\x85J\xff\xff\xff\xff\x85\x89NtR.",
        TENSOR + STORAGE + b"J\xff\xff\xff\x7fK\x01\x85K\x01\x85\x89NtR.",
        b"ctorch._utils\n_rebuild_tensor_v2\n(NK\x00K\x01\x85K\x01\x85\x89NtR.",
        b"ctorch._utils\n_rebuild_tensor_v2\n}b.",
        b"cbuiltins\nbytearray\n(J\xff\xff\xff\x7ftR.",
        b"]]s.", b"}K\x01s.", b"h\x05.", b"0.", b"(.", b"", b"N", b"\x8f]a.", b"}]K\x01s.",
        b"\x8b\xff\xff\xff\xff.", b"X\xff\xff\xff\xff.", b"]}\x93.",
        b"cbuiltins\nset\n(ctorch\nload\ntR.",
        b"(X\x07\0\0\0storageNNNNtQ.", b"Nb.", b"}q\0h\0Ns.",
    ],
)  # fmt: skip
def test_hostile_pickles(text):
    with pytest.raises(FileError):
        torch.load(archive_of(text, **{"0": b"\0" * 16}))


def test_deep_keys_are_refused():
    """The hash of a tuple recurses without a limit."""
    deep = b"}" + b")" + b"\x85" * 200_000 + b"Ns."
    with pytest.raises(FileError, match="a key"):
        torch.load(archive_of(deep))
    deep = torch.load(archive_of(b")" + b"\x85" * 200_000 + b"."))
    assert len(deep) == 1


def doubled(depth):
    """Returns nested pairs of one tuple: 2**depth items in a few bytes per level."""
    return b")" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(depth))


def wide(depth, width):
    text = b"(" + b"N" * width + b"t"
    for n in range(depth):
        text = b"(" + text + b"q%c" % n + b"h%c" % n * (width - 1) + b"t"
    return text


EXPANDED = TENSOR + STORAGE + b"K\x00\x8a\x06" + (2**40).to_bytes(6, "little")
EXPANDED += b"\x85K\x00\x85\x89NtR"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (doubled(60) + b"Q.", "refers to a tuple"),
        (b"ctorch\nSize\n" + doubled(60) + b"\x85R.", "size must be a tuple of ints"),
        (TENSOR + STORAGE + b"K\x00" + doubled(60) + b"K\x01\x85\x89NtR.", "size must be a tuple"),
        (
            TENSOR.replace(b"v2", b"v3") + STORAGE + b"K\x00K\x01\x85K\x01\x85\x89N"
            + doubled(60) + b"tR.", "dtype is a tuple",
        ),
        (b"}" + wide(3, 2000) + b"Ns.", "more than 4096 items"),
        (b"(" + wide(3, 2000) + b"\x91.", "more than 4096 items"),
        (b"ctorch\nSize\n" + EXPANDED + b"\x85R.", "size must be a tuple of ints"),
        (b"ccollections\nOrderedDict\n" + EXPANDED + b"\x85R.", "dict of something else"),
    ],
)  # fmt: skip
def test_small_files_are_refused_quickly(text, message):
    """Each file would take longer than any test."""
    with pytest.raises(FileError, match=message):
        torch.load(archive_of(text, **{"0": b"\0" * 16}))


def test_keys_of_tuples_are_read():
    keys = {(1, ("a", (2.5, None))): 1, frozenset([(1, 2), 3]): 2, tuple(range(4000)): 3}
    assert through_file(keys) == keys


def test_huge_expanded_tensors():
    text = TENSOR + STORAGE + b"K\x00"
    big = b"\x8a\x06" + (2**40).to_bytes(6, "little")
    for shape in (big + big, big):
        n = len(shape) // len(big)
        zeros = b"K\x00" * n
        end = {1: b"\x85", 2: b"\x86"}[n]
        file = archive_of(text + shape + end + zeros + end + b"\x89NtR.", **{"0": b"\0" * 16})
        try:
            assert torch.load(file).shape[0] == 2**40
        except FileError:
            assert n == 2


def test_damaged_archives_raise_or_load():
    data = (RECORDED / "all.pt").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    (name,) = (n for n in entries if n.endswith("data.pkl"))
    rng, refused = random.Random(5), 0

    def damaged(raw):
        raw = bytearray(raw)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(raw))
            kind = rng.randrange(4)
            if kind == 0:
                raw[at] = rng.randrange(256)
            elif kind == 1:
                raw[at] ^= 1 << rng.randrange(8)
            elif kind == 2:
                del raw[at : at + rng.randrange(1, 20)]
            else:
                other = rng.randrange(len(raw))
                raw[at:at] = raw[other : other + rng.randrange(1, 30)]
        return bytes(raw)

    for seed in range(400):
        if seed % 3:  # the archive is intact, its pickle is not
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as archive:
                for key, value in entries.items():
                    archive.writestr(key, damaged(value) if key == name else value)
            file.seek(0)
        else:
            file = io.BytesIO(damaged(data))
        try:
            torch.load(file)
        except FileError:
            refused += 1
    assert 200 < refused


def test_what_cannot_be_pickled_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(1, path)
    with pytest.raises((pickle.PicklingError, TypeError, AttributeError)):
        torch.save({"f": lambda: 0}, path)
    assert torch.load(path) == 1 and [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_tensors_with_history_are_saved_as_values():
    w = torch.ones(2, requires_grad=True)
    got = through_file({"y": w * 2, "d": (w * 2).detach()})
    assert got["y"].tolist() == [2, 2] and got["y"].is_leaf and not got["d"].requires_grad


def everything():
    """Returns objects of all the kinds that archives hold."""
    shared = torch.arange(12.0)
    attributed = torch.ones(2)
    attributed.note = "n"
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    adam = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    adam.step()
    return {
        "state": [model.state_dict(), adam.state_dict()],
        "views": (shared, shared[2:5], shared.view(3, 4).t(), shared.untyped_storage()),
        "kinds": [attributed, nn.Parameter(shared), torch.eye(2).to_sparse(), shared.shape],
        "others": [torch.ones(2, dtype=torch.uint16), torch.ones(2, device="meta")],
        "plain": [None, True, 1 << 70, 1.5, 1j, "x" * 300, b"c", {1, 2}],
        "dicts": [{1: 2}, OrderedDict(a=1), Counter("a")],
        "typed": torch.storage.TypedStorage(shared.untyped_storage(), torch.float32),
        "text": "ctorch\nFloatStorage\n",
        "layout": [torch.strided, torch.device("cpu")],
    }


def test_both_picklers_write_the_same(monkeypatch):
    from cograd._files import archive

    made, whole = everything(), len(sys.modules)
    fast, writer = archive._pickled(made)
    assert type(writer) is archive._FastWriter and len(sys.modules) == whole
    monkeypatch.setattr(archive._FastWriter, "text", None)
    slow, writer = archive._pickled(made)
    assert type(writer) is archive._Writer and slow == fast


@pytest.mark.parametrize("text", ["dtype", "Tensor", "nn.Parameter", "preserve_format"])
def test_names_that_only_one_pickler_writes(text):
    value = eval(f"torch.{'float32' if text == 'dtype' else text}")
    file = io.BytesIO()
    torch.save([value, value, torch.ones(2)], file, format="torch")
    with zipfile.ZipFile(file) as archive:
        found = archive.read("archive/data.pkl")
    assert b"cograd" not in found
    file.seek(0)
    got = torch.load(file, weights_only=False)
    assert got[0] is value and got[1] is value and got[2].tolist() == [1, 1]
