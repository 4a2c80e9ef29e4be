// SPDX-License-Identifier: BSD-3-Clause
// torch's rules for the order of a new tensor's dims in memory.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace cograd {

enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

// Converts a Python name, with None meaning `otherwise`; raises on an unknown name.
COGRAD_API MemoryFormat memory_format(const char* op, std::optional<std::string_view> name,
                                      MemoryFormat otherwise = MemoryFormat::Preserve);
// Returns dense strides in a format other than Preserve; raises if the rank does not fit.
Dims format_strides(IntList sizes, MemoryFormat format);
// True if x's elements are in that order.
COGRAD_API bool has_format(const Tensor& x, MemoryFormat format);
// Returns the channels-last format that x's strides match, else Contiguous.
MemoryFormat suggested_format(const Tensor& x);
// Returns x itself if it has the format, else a differentiable copy.
Tensor contiguous(const Tensor& x, MemoryFormat format);
// Returns such a copy in any case.
Tensor in_format(const Tensor& x, MemoryFormat format);
// Returns a new tensor of dtype t and x's sizes in a format.
Tensor empty_in_format(const Tensor& x, DType t, MemoryFormat format);

// Returns the strides of an elementwise result of `shape`, derived from those of its inputs, which
// broadcast to it; empty if the result is contiguous.
Dims result_strides(IntList shape, std::span<const Tensor* const> inputs);
// Returns a new dense tensor with the given strides.
Tensor empty_with_strides(IntList sizes, IntList strides, DType t);

}  // namespace cograd
