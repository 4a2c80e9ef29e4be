# SPDX-License-Identifier: BSD-3-Clause
"""Sequences of different lengths: padded, packed, and as lists of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import cograd
from cograd import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences of different lengths, stored step by step, the longest sequence first.

    RNN, LSTM and GRU accept and return packed sequences. Create one with
    ``pack_padded_sequence`` or ``pack_sequence``, not by calling the constructor.

    Args:
        data: (total, *): the values of step 0 of all sequences, then the values of step 1 of the
            sequences that have one, and so on.
        batch_sizes: (longest), int64: how many sequences have each step.
        sorted_indices: (N), the indices that sort the sequences by length; None if they were
            sorted already.
        unsorted_indices: the inverse permutation; computed if it is None.

    Raises:
        AssertionError: ``batch_sizes`` is missing, and ``data`` is not a pair.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Any:
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("PackedSequence: expected data and batch_sizes")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like "
                "pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Returns a copy whose data is ``data.to(...)``."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        orders = [
            None if order is None else order.to(data.device)
            for order in (self.sorted_indices, self.unsorted_indices)
        ]
        moved: PackedSequence = type(self)(data, self.batch_sizes, *orders)
        return moved

    def cpu(self) -> PackedSequence:
        """Returns a copy whose data is on the CPU; itself if it is there."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Returns a copy whose data is on a GPU; itself if it is there."""
        device = args[0] if args else kwargs.pop("device", None)
        return self.to("cuda" if device is None else device, *args[1:], **kwargs)

    def double(self) -> PackedSequence:
        """Returns a copy with float64 data."""
        return self.to(dtype=cograd.float64)

    def float(self) -> PackedSequence:
        """Returns a copy with float32 data."""
        return self.to(dtype=cograd.float32)

    def half(self) -> PackedSequence:
        """Returns a copy with float16 data."""
        return self.to(dtype=cograd.float16)

    def long(self) -> PackedSequence:
        """Returns a copy with int64 data."""
        return self.to(dtype=cograd.int64)

    def int(self) -> PackedSequence:
        """Returns a copy with int32 data."""
        return self.to(dtype=cograd.int32)

    def short(self) -> PackedSequence:
        """Returns a copy with int16 data."""
        return self.to(dtype=cograd.int16)

    def char(self) -> PackedSequence:
        """Returns a copy with int8 data."""
        return self.to(dtype=cograd.int8)

    def byte(self) -> PackedSequence:
        """Returns a copy with uint8 data."""
        return self.to(dtype=cograd.uint8)

    def pin_memory(self) -> PackedSequence:
        """Returns a copy with its tensors in pinned memory."""
        pinned: list[Any] = [None if part is None else part.pin_memory() for part in self]
        result: PackedSequence = type(self)(*pinned)
        return result

    def is_pinned(self) -> bool:
        """Returns whether the data is in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """True if the data is on a GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Returns the inverse of a permutation (N,), or None if it is None."""
    if permutation is None:
        return None
    inverse = cograd.empty_like(permutation)
    inverse[permutation] = cograd.arange(
        permutation.numel(), dtype=permutation.dtype, device=permutation.device
    )
    return inverse


def _rows_of(lengths: Tensor, steps: int) -> Tensor:
    """Returns the flat indices that sequences of these descending lengths fill in (steps, N)."""
    present = cograd.arange(steps, device="cpu").unsqueeze(1) < lengths.unsqueeze(0)
    return cograd.argwhere(present.flatten())[:, 0]


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | list[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Packs padded sequences (T, N, *), or (N, T, *) if ``batch_first``.

    Args:
        lengths: (N,) integers from 1 to T; in descending order unless ``enforce_sorted`` is False.

    Raises:
        RuntimeError: the lengths do not fit the input or are not sorted.
    """
    lengths = cograd.as_tensor(lengths, dtype=cograd.int64, device="cpu")
    order = None
    if not enforce_sorted:
        lengths, order = cograd.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    steps_first = input.transpose(0, 1) if batch_first else input
    batch = steps_first.shape[1]
    if steps_first.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.dim() != 1 or lengths.shape[0] != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.numel()} "
            f"(batch_size={batch})"
        )
    if bool((lengths[1:] > lengths[:-1]).any()):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if int(lengths[-1]) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    steps = int(lengths[0])
    if steps > steps_first.shape[0]:
        raise RuntimeError(
            f"Expected lengths of at most {steps_first.shape[0]}, the length of input, got {steps}"
        )
    rows = steps_first[:steps].reshape(steps * batch, *steps_first.shape[2:])
    data = rows.index_select(0, _rows_of(lengths, steps).to(rows.device))
    batch_sizes = (cograd.arange(steps, device="cpu").unsqueeze(1) < lengths.unsqueeze(0)).sum(1)
    packed: PackedSequence = PackedSequence(data, batch_sizes, order)
    return packed


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the padded sequences (T, N, *), or (N, T, *), and their lengths (N,).

    T is ``total_length`` if given, else the length of the longest sequence.

    Raises:
        ValueError: ``total_length`` is less than the longest sequence.
    """
    sizes = sequence.batch_sizes
    steps, batch = sizes.numel(), int(sizes[0])
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    lengths = (sizes.unsqueeze(1) > cograd.arange(batch, device="cpu").unsqueeze(0)).sum(0)
    data = sequence.data
    padded = data.new_full((steps * batch, *data.shape[1:]), padding_value)
    padded = padded.index_copy(0, _rows_of(lengths, steps).to(data.device), data)
    padded = padded.reshape(steps, batch, *data.shape[1:])
    if batch_first:
        padded = padded.transpose(0, 1)
    order = sequence.unsorted_indices
    if order is not None:
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | list[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stacks sequences (L_i, *) as (T, N, *), or (N, T, *), where T is the longest length."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side must be 'left' or 'right', got {padding_side!r}")
    items = tuple(sequences.unbind(0) if isinstance(sequences, Tensor) else sequences)
    if not items:
        raise RuntimeError("received an empty list of sequences")
    longest = max(item.shape[0] for item in items)
    padded = []
    for item in items:
        missing = longest - item.shape[0]
        if missing:
            fill = item.new_full((missing, *item.shape[1:]), padding_value)
            item = cograd.cat([item, fill] if padding_side == "right" else [fill, item], 0)
        padded.append(item)
    return cograd.stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Splits padded sequences (T, N, *), or (N, T, *), into a list of (L_i, *) of these lengths."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [x[: int(n)] for x, n in zip(padded_sequences.unbind(0), lengths)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences (L_i, *); sorted by length unless ``enforce_sorted`` is False."""
    items = list(sequences)
    lengths = cograd.tensor([item.shape[0] for item in items], device="cpu")
    return pack_padded_sequence(pad_sequence(items), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Splits packed sequences into a list of (L_i, *), in the order before packing."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
