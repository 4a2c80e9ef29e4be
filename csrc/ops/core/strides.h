// SPDX-License-Identifier: BSD-3-Clause
// In which order the dims of a new tensor lie in memory: torch's rules.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace cograd {

enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

// A name as Python has it; raises on any other. None means `otherwise`.
COGRAD_API MemoryFormat memory_format(const char* op, std::optional<std::string_view> name,
                                      MemoryFormat otherwise = MemoryFormat::Preserve);
// Strides of a dense tensor in a format that is not Preserve; raises if the rank does not fit.
Dims format_strides(IntList sizes, MemoryFormat format);
// Whether x's elements lie in that order.
COGRAD_API bool has_format(const Tensor& x, MemoryFormat format);
// The channels-last format that x's strides show, else Contiguous.
MemoryFormat suggested_format(const Tensor& x);
// x itself if it has the format, else a differentiable copy.
Tensor contiguous(const Tensor& x, MemoryFormat format);
// Such a copy in any case.
Tensor in_format(const Tensor& x, MemoryFormat format);
// A new tensor of dtype t and x's sizes in a format.
Tensor empty_in_format(const Tensor& x, DType t, MemoryFormat format);

// Strides of an elementwise result of `shape`, from those of its inputs, which broadcast to it;
// empty if it is contiguous.
Dims result_strides(IntList shape, std::span<const Tensor* const> inputs);
// A dense tensor with the given strides.
Tensor empty_with_strides(IntList sizes, IntList strides, DType t);

}  // namespace cograd
