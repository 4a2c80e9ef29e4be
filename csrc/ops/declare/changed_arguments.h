// SPDX-License-Identifier: BSD-3-Clause
// ChangedArguments: a copy of a call's boxed arguments, in which stages replace tensors and lists.
#pragma once
#include <utility>
#include <vector>

#include "ops/declare/registry.h"

namespace cograd {

// Owns what replaces arguments; the others are borrowed from the call.
class COGRAD_API ChangedArguments {
 public:
  ChangedArguments(const OpRecord& r, const Value* args) : r_(r) {
    for (size_t i = 0; i < r.args.size(); ++i) values_.push_back(args[i]);
  }
  ChangedArguments(const ChangedArguments&) = delete;
  ChangedArguments& operator=(const ChangedArguments&) = delete;

  Value& operator[](size_t i) { return values_[i]; }
  void set(size_t i, Tensor t) {
    tensors_.push_back(std::move(t));
    values_[i].set_tensor(tensors_.back().impl());
  }
  void set(size_t i, std::vector<Tensor> list) {
    lists_.push_back(std::move(list));
    values_[i].set_list(COGRAD_TENSORS, lists_.back().data(), lists_.back().size());
  }
  void set(size_t i, Dims list) {
    ints_.reserve(r_.args.size());  // the elements of short lists are in the list itself
    ints_.push_back(std::move(list));
    values_[i].set_list(COGRAD_INTS, ints_.back().data(), ints_.back().size());
  }
  // Replaces every tensor t of parameter i by f(t), or by f(i, t).
  template <class F>
  void map(F&& f) {
    const auto replaced = [&](size_t i, const Tensor& t) -> Tensor {
      if constexpr (requires { f(i, t); })
        return f(i, t);
      else
        return f(t);
    };
    for (size_t i = 0; i < r_.args.size(); ++i) {
      if (values_[i].has_tensor()) {
        set(i, replaced(i, values_[i].tensor()));
      } else if (values_[i].kind == COGRAD_TENSORS) {
        std::vector<Tensor> list;
        for (const Tensor& t : values_[i].tensors())
          list.push_back(t.defined() ? replaced(i, t) : t);
        set(i, std::move(list));
      }
    }
  }
  const Value* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }
  // Calls the op in its plain form, through the stages (stages.cpp).
  void call(Result& out) const;

 private:
  const OpRecord& r_;
  SmallVec<Value, 8> values_;
  SmallVec<Tensor, 4> tensors_;
  std::vector<std::vector<Tensor>> lists_;
  std::vector<Dims> ints_;
};

}  // namespace cograd
