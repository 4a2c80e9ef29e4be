# SPDX-License-Identifier: BSD-3-Clause
"""Reads damaged files: each must be read or raise, and no call that the file asks for may run.

A kind of file is a pair (bytes of a valid file, reader). Add further formats to EXTRA.
"""

import builtins
import io
import os
import pickle
import random
import tempfile
from collections import OrderedDict

import cograd as torch
from cograd import _C
from fuzz.execute import FAULTS, LEAKED, Wrong

MADE = []  # an entry for each call that a pickle made and should not have made


class Payload:
    def __reduce__(self):
        return MADE.append, (1,)


def content():
    torch.manual_seed(0)
    base = torch.arange(12.0).reshape(3, 4)
    return OrderedDict(
        a=base,
        b=base[1:, ::2],
        c=[torch.ones(2, dtype=torch.int64), (1, 2.5, None, "text")],
        d={"e": torch.zeros(0, 3), "f": torch.tensor(True), 3: torch.ones(2, dtype=torch.bfloat16)},
    )


def saved(value):
    room = io.BytesIO()
    torch.save(value, room)
    return room.getvalue()


def pickled(value, protocol=2):
    return pickle.dumps(value, protocol)


def read_saved(data):
    return torch.load(io.BytesIO(data))


def read_path(data):
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(data)
        file.flush()
        return torch.load(file.name)


class OurPickles(pickle.Unpickler):
    """Finds only the classes that pickles of tensors need, none of which can do harm."""

    def find_class(self, module, name):
        if module.startswith("cograd") or (module, name) == ("collections", "OrderedDict"):
            return super().find_class(module, name)
        if module == "builtins" and name in ("set", "frozenset", "slice", "complex", "range"):
            return getattr(builtins, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def read_pickle(data):
    return OurPickles(io.BytesIO(data)).load()


def kinds():
    """Returns (valid bytes, reader) by name. A reader may raise anything that is not in FAULTS."""
    value = content()
    found = {
        "safetensors": (saved(value), read_saved),
        "safetensors by path": (saved(value), read_path),
        "pickle": (pickled(value), read_pickle),
        "pickle 4": (pickled(value, 4), read_pickle),
        "pickle of a storage": (pickled(value["a"].untyped_storage()), read_pickle),
    }
    for name, make in EXTRA.items():
        found[name] = make(value)
    return found


# Further formats: name -> function that gets the content and returns (valid bytes, reader).
EXTRA = {}

NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 255)


def damaged(data, rng):
    """Returns the bytes with a few random changes: flips, cuts, insertions, numbers near limits."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not data:
            break
        how, at = rng.randrange(9), rng.randrange(len(data))
        # Half of the changes are in the header, where most faults are.
        at = at if rng.random() < 0.5 else rng.randrange(min(len(data), 200))
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at] = rng.randrange(256)
        elif how == 2:
            del data[at:]
        elif how == 3:
            del data[at : at + rng.randrange(1, 20)]
        elif how == 4:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 20)))
        elif how == 5:
            size = rng.choice((4, 8))
            number = rng.choice(NUMBERS) % (1 << 8 * size)
            data[at : at + size] = number.to_bytes(size, "little")
        elif how == 6:
            digits = [i for i, b in enumerate(data[:2000]) if 48 <= b < 58]
            if digits:
                i = rng.choice(digits)
                data[i : i + 1] = str(rng.choice((*NUMBERS, -1, 7))).encode()
        elif how == 7:
            other = rng.randrange(len(data))
            data[at : at + 8], data[other : other + 8] = data[other : other + 8], data[at : at + 8]
        else:
            data += data[at : at + 50]
    return bytes(data)


def touch(value, depth=0):
    """Reads all loaded values, so that a sanitizer notices memory outside of the file."""
    if isinstance(value, torch.Tensor) and value.numel() < 1 << 22:
        value.clone()
        repr(value)
    elif isinstance(value, dict) and depth < 5:
        for k, v in list(value.items())[:50]:
            touch(k, depth + 1)
            touch(v, depth + 1)
    elif isinstance(value, (list, tuple)) and depth < 5:
        for v in value[:50]:
            touch(v, depth + 1)


def case(seed):
    rng = random.Random(seed)
    files = kinds()
    name = rng.choice(sorted(files))
    data, reader = files[name]
    bad = damaged(data, rng)
    base = _C._live_nodes()
    try:
        touch(reader(bad))
    except FAULTS as e:
        raise Wrong(f"{name}: {type(e).__name__}: {e}") from e
    except Exception as e:
        if LEAKED.search(str(e)):
            raise Wrong(f"{name}: {type(e).__name__}: {e}") from e
    if MADE:
        raise Wrong(f"{name}: the file's own call was made")
    if not torch.is_grad_enabled() or _C._live_nodes() > base:
        raise Wrong(f"{name}: state was left behind")
    if seed % 500 == 0:  # load() must refuse pickles in any case
        evil = pickle.dumps(Payload())
        for suffix in ("", ".safetensors"):
            with tempfile.NamedTemporaryFile(suffix=suffix) as file:
                file.write(evil)
                file.flush()
                try:
                    torch.load(file.name)
                except Exception:
                    pass
        if MADE:
            raise Wrong("load() ran a pickle's call")


def describe(seed):
    return f"file {seed} in process {os.getpid()}"
