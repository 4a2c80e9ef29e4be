# SPDX-License-Identifier: BSD-3-Clause
"""Collects the names that `import cograd` imports at first use; tools/gen_stubs.py writes them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "cograd"

# Modules that the root namespace imports at first use. It has all names of their __all__; those of
# every module in cograd._functions too.
LAZY = (
    "_as_torch.no_compiler _as_torch.switches _transforms.vmap amp.grad_scaler linalg._lowrank "
    "nn.functional._grid"
).split()
# It has only these names of theirs,
LAZY_NAMES = {
    "__config__": "show_config",
    "_as_torch.alias": "install_as_torch",
    "_as_torch.symbols": "SymBool SymFloat SymInt",
    "_tensor.str": "get_printoptions printoptions set_printoptions",
    "futures": "Future",
    "nn.functional.activation": "rrelu rrelu_",
    "nn.functional.vision": "channel_shuffle pixel_shuffle pixel_unshuffle",
    "serialization": "load save",
    "sparse._construct": (
        "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
        "sparse_csc_tensor sparse_csr_tensor"
    ),
    "sparse._products": "dsmm hsmm spmm",
}
# or all but these.
LAZY_EXCEPT = {"amp.autocast_mode": "custom_bwd custom_fwd is_autocast_available"}


def found() -> dict[str, str]:
    """Returns the names that `import cograd` finds at first use, and their modules."""
    names: dict[str, str] = {}
    functions = (p.stem for p in (PACKAGE / "_functions").glob("[!_]*.py"))
    for place in sorted(
        [*LAZY, *LAZY_NAMES, *LAZY_EXCEPT, *(f"_functions.{p}" for p in functions)]
    ):
        offered = getattr(import_module(f"cograd.{place}"), "__all__", ())
        wanted = LAZY_NAMES[place].split() if place in LAZY_NAMES else list(offered)
        left_out = LAZY_EXCEPT.get(place, "").split()
        for name in wanted:
            if name[0] == "_" or name in left_out:
                continue
            if name not in offered or name in names:
                where = names.get(name, "nowhere else")
                raise ValueError(f"{name} of cograd.{place}: not in its __all__, or also {where}")
            names[name] = place
    return dict(sorted(names.items()))


def text(names: dict[str, str]) -> str:
    """Returns the text of _base/lazy_names.py."""
    head = (
        "# SPDX-License-Identifier: BSD-3-Clause\n"
        '"""The names that `import cograd` imports at first use, and their modules.\n\n'
        'Written by tools/gen_stubs.py from the __all__ of these modules.\n"""\n\n'
    )
    rows = "".join(f'    "{name}": "{place}",\n' for name, place in names.items())
    return f"{head}NAMES = {{\n{rows}}}\n"
