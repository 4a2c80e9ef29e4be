// SPDX-License-Identifier: BSD-3-Clause
// Tensors over the same memory with separate histories, such as the argument of a module with a
// full backward hook and the alias of it that the module gets.
#pragma once
#include "autograd/graph/node.h"

namespace cograd {

// Declares that `alias` was made from `source`, over the same memory, on behalf of the module
// `who`. From now on each of the two knows which recorded writes its history has:
// - after a write to `alias`, `source` takes over the history of `alias` when it is read next;
// - after a write to `source`, `alias` raises when it is read next.
// Neither may be a view or batched. If `alias` shares writes already, it leaves its former source.
COGRAD_API void share_writes(const Tensor& source, const Tensor& alias, const char* who);

// Returns the grad_fn of a tensor with kSharesWrites, borrowed; raises if its history lacks a
// write.
COGRAD_API Node* shared_history(TensorImpl* t);
// True unless `t` shares writes and its history lacks one.
COGRAD_API bool knows_all_writes(const TensorImpl* t);
// Makes output `nr` of `node` the history of `t`, which then contains all writes so far.
COGRAD_API void take_history(TensorImpl* t, Node* node, uint32_t nr);
// True if both have the same memory and geometry, so that a history of one is right for the other.
COGRAD_API bool same_place(const TensorImpl* a, const TensorImpl* b) noexcept;

// Called when `node`, by a write to `written`, which is `t` or a view of it, has become the history
// of `t`. `t` shares writes.
void note_shared_write(TensorImpl* t, const TensorImpl* written, const Node& node);
// Called when `t`, which shares writes, becomes a constant: its history is right for no one else.
void note_detach(TensorImpl* t);
// Called before `t`, which shares writes, is destroyed or gets another source.
void leave_shared_writes(TensorImpl* t) noexcept;
// Called with the interpreter lock when `t`, which shares writes, or its Python object ends: gives
// the history of `t` to a tensor that `t` was made from and that lacks a write.
COGRAD_API void pass_history_on(TensorImpl* t) noexcept;

}  // namespace cograd
