// SPDX-License-Identifier: BSD-3-Clause
// Calls of registered ops with batched tensors: by the op's `batch`, or sample by sample.
#include "api/op_call.h"

namespace cograd::api {

namespace {

bool same_numbers(const Result& a, const Result& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Result::Kind::Int:
      return a.integer == b.integer;
    case Result::Kind::Double:
      return a.number == b.number;
    case Result::Kind::Bool:
      return a.truth == b.truth;
    case Result::Kind::Text:
      return a.more->text == b.more->text;
    case Result::Kind::Items:
      if (a.more->items.size() != b.more->items.size()) return false;
      for (size_t i = 0; i < a.more->items.size(); ++i)
        if (!same_numbers(a.more->items[i], b.more->items[i])) return false;
      return true;
    default:
      return true;
  }
}

std::vector<Tensor> tensors_of(Result& r) {
  std::vector<Tensor> out;
  std::vector<Tensor*> slots;
  add_slots(r, slots);
  for (const Tensor* slot : slots) out.push_back(*slot);
  return out;
}

class OpSamples final : public SampledCall {
 public:
  OpSamples(const ForeignOp& op, const Value* values) : op_(op), values_(values) {}
  std::string name() const override { return "op '" + op_.qualified + "'"; }
  bool has_rule() const override { return op_.batch != nullptr; }
  bool rule_takes_samples() const override {
    return (op_.flags & COGRAD_OP_BATCH_TAKES_SAMPLES) != 0;
  }
  bool non_differentiable() const override {
    return (op_.flags & COGRAD_OP_NON_DIFFERENTIABLE) != 0;
  }
  std::string rule_to_write() const override {
    return "    @cograd.library.register_vmap(\"" + op_.qualified +
           "\")\n"
           "    def rule(info, in_dims, *args):\n"
           "        return output, out_dims\n"
           "or, in C++, .vmap(rule) to its definition, in C the entry `batch` of its "
           "cograd_op_desc.";
  }
  std::vector<Tensor> call_rule(const VmapLevel& level, std::span<const Tensor> inputs,
                                std::span<const SampleDim> dims,
                                std::vector<SampleDim>& out_dims) override {
    const Given given(op_, values_, inputs);
    OwnedLists lists;
    const auto args = boxed_args(op_, given.values.data(), lists);
    const cograd_batch_info info = batch_info(level);
    const std::vector<int32_t> in_dims = dims_to_c(dims);
    cograd_results_s results;
    const cograd_status s = op_.batch(&info, op_.batch_user, args.data(), args.size(),
                                      in_dims.data(), in_dims.size(), &results);
    if (s != COGRAD_OK) raise(s, op_.qualified);
    set_result(op_, results.items, result_);
    std::vector<Tensor> out = tensors_of(result_);
    out_dims = sample_dims(results, out.size(), name());
    return out;
  }
  std::vector<Tensor> call(std::span<const Tensor> inputs) override {
    const Given given(op_, values_, inputs);
    Result one;
    call_foreign(op_, given.values.data(), one);
    if (!called_) result_ = one;
    COGRAD_CHECK(same_numbers(result_, one), "vmap: ", name(),
                 " returned a number, or another value that is not a Tensor, that differs between "
                 "samples; return a Tensor");
    called_ = true;
    return tensors_of(one);
  }
  // Returns the result of the last call with its tensors replaced by these.
  Result result_with(std::vector<Tensor> tensors) {
    std::vector<Tensor*> slots;
    add_slots(result_, slots);
    for (size_t i = 0; i < slots.size(); ++i) *slots[i] = std::move(tensors[i]);
    return std::move(result_);
  }

 private:
  // A copy of the arguments with their tensors replaced.
  struct Given {
    SmallVec<Value, 8> values;
    std::vector<std::vector<Tensor>> lists;
    Given(const ForeignOp& op, const Value* from, std::span<const Tensor> tensors) {
      lists.reserve(op.record.args.size());
      size_t next = 0;
      for (size_t i = 0; i < op.record.args.size(); ++i) {
        Value v = from[i];
        const ArgKind kind = op.record.args[i].kind;
        if (kind == ArgKind::Tensors) {
          const size_t n = v.tensors().size();
          const auto part = tensors.subspan(next, n);
          lists.emplace_back(part.begin(), part.end());
          if (n > 0) v.set_list(COGRAD_TENSORS, lists.back().data(), n);
          next += n;
        } else if (kind == ArgKind::Tensor || kind == ArgKind::TensorOrScalar) {
          if (v.has_tensor()) v.set_tensor(tensors[next].impl());
          ++next;
        }
        values.push_back(v);
      }
    }
  };

  const ForeignOp& op_;
  const Value* values_;
  Result result_;
  bool called_ = false;
};

}  // namespace

bool call_foreign_samples(const ForeignOp& op, const Value* values, Result& out) {
  std::vector<Tensor> inputs;
  bool any = false;
  each_tensor(op.record, values, [&](const Tensor& t) {
    any |= is_batched(t);
    inputs.push_back(t);
  });
  if (!any) return false;
  const bool takes_samples = op.batch == nullptr && (op.flags & COGRAD_OP_TAKES_SAMPLES) != 0;
  const bool own_derivative = op.backward != nullptr || op.jvp != nullptr;
  if (takes_samples && !(own_derivative && any_tangent_samples(inputs))) return false;
  OpSamples call(op, values);
  std::vector<Tensor> tensors = call_samples(call, inputs);
  out = call.result_with(std::move(tensors));
  return true;
}

}  // namespace cograd::api
