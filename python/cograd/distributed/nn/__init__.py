# SPDX-License-Identifier: BSD-3-Clause
"""Differentiable communication; see ``functional``."""

from .functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    depends_on,
    exchange,
    gather,
    ordered,
    recv,
    reduce,
    reduce_scatter,
    scatter,
    send,
    sendrecv,
)

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "depends_on",
    "exchange",
    "gather",
    "ordered",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
    "sendrecv",
]
