# SPDX-License-Identifier: BSD-3-Clause
"""Methods and attributes of torch's tensors for layouts and devices that cograd lacks."""

from __future__ import annotations

from typing import Any, NoReturn

from cograd._C import Tensor

# ---- rows of python/surface/absent.toml, written by make stubs -----------------------------------

TENSOR = {
    "sparse": "resize_as_sparse_ smm sparse_resize_ sparse_resize_and_clear_ sspaddmm",
    "quantized": (
        "dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points "
        "q_scale q_zero_point qscheme"
    ),
    "nested": "to_padded_tensor",
    "named": "align_as align_to refine_names rename rename_",
    "gpu": "ipu mtia record_stream to_mkldnn xpu",
    "first_class_dims": "index",
    "copies": "narrow_copy",
}


# ---- end of the rows -----------------------------------------------------------------------------


def _refusal(name: str, topic: str) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> NoReturn:
        from cograd._base import absent

        raise absent.refused(f"Tensor.{name}()", topic)

    method.__doc__ = "Not offered: raises NotImplementedError."
    return method


def _never(self: Tensor) -> bool:
    return False


def _names(self: Tensor) -> tuple[None, ...]:
    return (None,) * self.dim()


def _has_names(self: Tensor) -> bool:
    """Returns False: dims have no names."""
    return False


_REFUSED = frozenset(" ".join(TENSOR.values()).split())


def _dir(self: Tensor) -> list[str]:
    """Returns all names except those that raise: Python suggests names only among at most 750."""
    return [name for name in object.__dir__(self) if name not in _REFUSED]


METHODS: dict[str, Any] = {
    "__dir__": _dir,
    "has_names": _has_names,
    "names": property(_names, doc="None for each dim."),
    **{
        f"is_{kind}": property(_never, doc="Always False.")
        for kind in (
            "ipu", "maia", "mkldnn", "mps", "mtia", "nested", "sparse_csr", "vulkan", "xla", "xpu"
        )
    },
    **{name: _refusal(name, topic) for topic, names in TENSOR.items() for name in names.split()},
}  # fmt: skip
