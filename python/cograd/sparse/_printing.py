# SPDX-License-Identifier: BSD-3-Clause
"""Prints sparse tensors in torch's format."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd._tensor import str as _str

__all__ = ["sparse_str"]


def _text(name: str, part: Tensor) -> str:
    """Returns ``name=tensor(...)``, without the dtype, which stands at the end."""
    head = f"{name}=tensor("
    if part.numel() == 0:
        return f"{head}[], size={tuple(part.shape)})"
    return f"{head}{_str._contents(part, len('tensor(') + len(head))})"


def sparse_str(s: Any) -> str:
    """Returns indices, values, size, nnz and layout."""
    pattern, values = s._pattern, s._v
    names = {
        cograd.sparse_coo: ("indices",),
        cograd.sparse_csr: ("crow_indices", "col_indices"),
        cograd.sparse_csc: ("ccol_indices", "row_indices"),
        cograd.sparse_bsr: ("crow_indices", "col_indices"),
        cograd.sparse_bsc: ("ccol_indices", "row_indices"),
    }[pattern.layout]
    if values._is_concerned in (2, 4):  # a transform's: its values have no text of their own
        parts = [f"values={values!r}"]
    else:
        parts = [_text("values", values)]
    parts = [_text(n, p) for n, p in zip(names, pattern.parts, strict=True)] + parts
    indent = " " * len("tensor(")
    suffixes = [f"size={tuple(s.shape)}", f"nnz={pattern.nnz}"]
    default = cograd.get_default_dtype()
    if s.dtype not in (default, default.to_complex(), cograd.int64, cograd.bool):
        suffixes.append(f"dtype={s.dtype}")
    suffixes.append(f"layout={pattern.layout}")
    name = _str._grad_fn_name(values)
    if name is not None:
        suffixes.append(f"grad_fn=<{name}>")
    elif values.requires_grad:
        suffixes.append("requires_grad=True")
    text = f",\n{indent}".join(parts)
    if pattern.is_coo:  # torch begins a line here
        text += f",\n{indent}{suffixes.pop(0)}"
    width = _str.get_printoptions()["linewidth"]
    return _str._with_suffixes("tensor(" + text, suffixes, len(indent), width)
