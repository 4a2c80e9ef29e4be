// SPDX-License-Identifier: BSD-3-Clause
// vmap: the general batching rules, and the loop over samples for ops that declare none.
#include "ops/transform/batching.h"

#include <algorithm>

#include "ops/compute/promote.h"
#include "ops/declare/ops.h"
#include "ops/random/generator.h"
#include "transforms/function_scope.h"

namespace cograd {

namespace {

// Turns results with the batch in dim 0 into batched tensors.
void wrap_results(const BatchCall& c) {
  each_tensor(c.out(), [&](Tensor& t) { t = make_batched(t, 0, c.level().id); });
}

int highest_rank(const BatchCall& c) {
  int rank = 0;
  each_tensor(c.record(), c.args(),
              [&](size_t, const Tensor& t) { rank = std::max(rank, t.dim()); });
  return rank;
}

// Casts operands of several dtypes to the result's dtype first: a 0-dim operand has lower priority
// in type promotion, which the batch dim would hide.
void promote_operands(const BatchCall& c, ChangedArguments& args) {
  ResultType type;
  DType first = DType::Bool;
  int operands = 0;
  bool differ = false;
  for (size_t i = 0; i < c.record().args.size(); ++i) {
    if (c.record().args[i].kind != ArgKind::TensorOrScalar || !c.arg(i).has_tensor()) continue;
    const Tensor& t = c.arg(i).tensor();
    type.add(t);
    differ |= operands++ > 0 && t.dtype() != first;
    first = t.dtype();
  }
  if (!differ) return;
  for (size_t i = 0; i < c.record().args.size(); ++i)
    if (c.record().args[i].kind == ArgKind::TensorOrScalar && c.arg(i).has_tensor() &&
        (c.arg(i).tensor()->flags & kWrappedNumber) == 0)
      args.set(i, cast(args[i].tensor(), type.get()));
}

void pointwise(const BatchCall& c) {
  ChangedArguments args(c.record(), c.args());
  const int rank = highest_rank(c);
  args.map([&](const Tensor& t) { return c.aligned(t, rank); });
  promote_operands(c, args);
  args.call(c.out());
  wrap_results(c);
}

bool fits_core(const BatchCall& c) {
  bool fits = true, first = true;
  each_tensor(c.record(), c.args(), [&](size_t, const Tensor& t) {
    fits &= t.dim() >= c.record().traits.batch.core_dims;
    fits &= std::exchange(first, false) || !c.record().traits.batch.alone || !c.batched(t);
  });
  return fits;
}

// Returns the batched positions of the dims that a parameter names; false if one is out of range.
bool wrapped_dims(const Value& v, bool list, int rank, Dims& out) {
  const int64_t one = list ? 0 : v.integer();
  for (const int64_t d : list ? v.ints() : IntList{&one, 1}) {
    if (d < -rank || d >= rank) return false;
    out.push_back((d < 0 ? d + rank : d) + 1);
  }
  return true;
}

// Shifts dims past the batch dim. False if the op must report an error itself, or if the call has a
// different meaning, such as a reduction over all dims.
bool shift_dims(const BatchCall& c, int rank, ChangedArguments& args) {
  const BatchRule& rule = c.record().traits.batch;
  rank += rule.new_dims;
  for (size_t i = 0; i < c.record().args.size() && rule.shaped; ++i) {
    if (c.record().args[i].kind != ArgKind::Shape) continue;
    rank = static_cast<int>(args[i].ints().size());
    args.set(i, detail::with_samples(c.size(), args[i].ints()));
  }
  for (size_t i = 0; i < c.record().args.size(); ++i) {
    const ArgKind k = c.record().args[i].kind;
    if (k != ArgKind::Dim && k != ArgKind::DimList) continue;
    const bool reduces = (c.record().spec.flags & kKindMask) == kReduction;
    Dims dims;
    if (args[i].none()) {
      if (!reduces || rank == 0 || (k == ArgKind::Dim && rank > 1)) return false;
      for (int d = 1; d <= rank; ++d) dims.push_back(d);
    } else if (!wrapped_dims(args[i], k == ArgKind::DimList, rank, dims) || dims.empty()) {
      return false;
    }
    if (k == ArgKind::Dim)
      args[i].set_integer(dims[0]);
    else
      args.set(i, std::move(dims));
  }
  return true;
}

// True for a call such as argmax() that reduces over all dims of a sample.
bool omits_dim(const BatchCall& c) {
  for (size_t i = 0; i < c.record().args.size(); ++i)
    if (c.record().args[i].kind == ArgKind::Dim && c.arg(i).none()) return true;
  return false;
}

// Restores all dims of a sample with size 1 if the reduced dim of the rows was kept.
void keep_dims(const BatchCall& c, int rank) {
  const Dims ones(static_cast<size_t>(rank), 1);
  each_tensor(c.out(), [&](Tensor& t) {
    if (t.dim() > 1) t = reshape(t, detail::with_samples(c.size(), ones));
  });
}

bool by_dims(const BatchCall& c) {
  int rank = -1;
  bool first = true, fits = true;
  each_tensor(c.record(), c.args(), [&](size_t, const Tensor& t) {
    if (rank < 0) rank = t.dim();
    // The dims of a call are those of its first tensor; other tensors must be unbatched or of its
    // rank.
    if (!first && !c.record().traits.batch.aligned && c.record().num_results > 0)
      fits &= c.record().args[0].kind == ArgKind::Tensors ? t.dim() == rank : !c.batched(t);
    fits &= !c.record().traits.batch.aligned || t.dim() == rank;
    first = false;
  });
  if (!fits || rank < 0) return false;
  // 0-dim samples, and samples that are reduced over all dims at once, become rows of a matrix.
  const bool no_dims = rank == 0 && c.record().traits.batch.new_dims == 0;
  const bool rows = no_dims || (rank > 1 && omits_dim(c));
  if (rows && (c.record().spec.flags & kKindMask) != kReduction) return false;
  ChangedArguments args(c.record(), c.args());
  if (!shift_dims(c, rows ? 1 : rank, args)) return false;
  const bool all = c.record().traits.batch.aligned || c.record().args[0].kind == ArgKind::Tensors;
  bool at_first = true;
  args.map([&](const Tensor& t) {
    const bool whole = all || std::exchange(at_first, false);
    if (!whole) return t;
    const int64_t row[2] = {c.size(), t.numel()};
    return rows ? reshape(c.physical_expanded(t), row) : c.physical_expanded(t);
  });
  args.call(c.out());
  if (rows) keep_dims(c, rank);
  wrap_results(c);
  return true;
}

void by_shape(const BatchCall& c) {
  ChangedArguments args(c.record(), c.args());
  args.map([&](const Tensor& t) { return c.physical_expanded(t); });
  for (size_t i = 0; i < c.record().args.size(); ++i)
    if (c.record().args[i].kind == ArgKind::Shape && !args[i].none())
      args.set(i, detail::with_samples(c.size(), args[i].ints()));
  args.call(c.out());
  wrap_results(c);
}

void warn_of_loop(const char* op) {
  if (!warns_of_loops()) return;
  warn_once(detail::concat("vmap: ", op,
                           "() has no batching rule and runs sample by sample, which is slow for "
                           "many samples."));
}

[[noreturn]] void fail_shapes(const BatchCall& c, const Tensor& a, const Tensor& b) {
  throw_cannot_batch(detail::concat(
      "vmap: the results of ", c.record().spec.name, "() have a shape that depends on the values: ",
      to_string(a.sizes()), " for one sample, ", to_string(b.sizes()),
      " for another. Use a form of fixed shape, such as where(condition, a, b)."));
}

Tensor stacked(const BatchCall& c, const std::vector<Tensor>& samples) {
  for (const Tensor& t : samples)
    if (!same(t.sizes(), samples[0].sizes())) fail_shapes(c, samples[0], t);
  return make_batched(stack(samples, 0), 0, c.level().id);
}

// Combines the samples' results: stacks the tensors, and copies everything else from sample 0.
void stack_results(const BatchCall& c, std::vector<Result>& samples) {
  Result& out = c.out();
  out = samples[0];
  if (out.kind != Result::Kind::Tensor && out.kind != Result::Kind::Tuple &&
      out.kind != Result::Kind::List)
    throw_cannot_batch(detail::concat(
        "vmap: ", c.record().spec.name,
        "() gives a Python number, which cannot differ from sample to sample. Use tensors, "
        "and where(condition, a, b) to choose."));
  const auto gather = [&](auto&& pick) {
    std::vector<Tensor> list;
    for (Result& r : samples) list.push_back(pick(r));
    return list[0].defined() ? stacked(c, list) : Tensor();
  };
  if (out.kind == Result::Kind::Tensor) {
    out.tensor = gather([](Result& r) { return r.tensor; });
    return;
  }
  for (const Result& r : samples)
    COGRAD_CHECK(r.tensors.size() == out.tensors.size(), "vmap: ", c.record().spec.name,
                 "() returns a number of tensors that depends on the values");
  for (size_t i = 0; i < out.tensors.size(); ++i)
    out.tensors[i] = gather([i](Result& r) { return r.tensors[i]; });
}

// Runs the op sample by sample and stacks the results. `prepare` runs before each sample.
template <class F>
void run_samples(BatchCall& c, F&& prepare) {
  COGRAD_CHECK(c.size() > 0, "vmap: ", c.record().spec.name,
               "() runs sample by sample and cannot run on a batch of size 0");
  std::vector<std::vector<Tensor>> parts;
  each_tensor(c.record(), c.args(), [&](size_t, const Tensor& t) {
    parts.push_back(c.batched(t) ? unbind(c.physical(t), 0) : std::vector<Tensor>());
  });
  std::vector<Result> results(static_cast<size_t>(c.size()));
  for (size_t b = 0; b < results.size(); ++b) {
    prepare();
    ChangedArguments args(c.record(), c.args());
    size_t at = 0;
    args.map([&](const Tensor& t) {
      const std::vector<Tensor>& mine = parts[at++];
      return mine.empty() ? t : mine[b];
    });
    args.call(results[b]);
  }
  stack_results(c, results);
}

}  // namespace

// --- members that ops' own rules call ----------------------------------------------------------

Tensor BatchCall::physical_expanded(const Tensor& t) const {
  if (batched(t)) return batch_dim_first(t);
  return expand(t, detail::with_samples(size(), t.sizes()));
}

Tensor BatchCall::aligned(const Tensor& t, int rank) const {
  if (!batched(t)) return t;
  Tensor x = batch_dim_first(t);
  if (t.dim() == rank) return x;
  Dims sizes{x.size(0)};
  for (int i = t.dim(); i < rank; ++i) sizes.push_back(1);
  for (const int64_t n : t.sizes()) sizes.push_back(n);
  return view(x, sizes);
}

void BatchCall::loop() {
  if ((record_.spec.flags & kInternal) == 0) warn_of_loop(record_.spec.name);
  run_samples(*this, [] {});
}

// --- the call ----------------------------------------------------------------------------------

LevelId highest_batch_level(const OpRecord& r, const Value* args) noexcept {
  LevelId highest = 0;
  each_tensor(r, args,
              [&](size_t, const Tensor& t) { highest = std::max(highest, batch_level(t)); });
  return highest;
}

namespace {
bool any_tangent_samples(const OpRecord& r, const Value* args, const VmapLevel& level) {
  bool any = false;
  each_tensor(r, args, [&](size_t, const Tensor& t) { any |= has_tangent_samples(t, level.id); });
  return any;
}
// Makes a tensor batched if its tangent is batched.
void lift_tangents(const VmapLevel& level, ChangedArguments& args) {
  args.map([&](const Tensor& t) {
    return has_tangent_samples(t, level.id)
               ? make_batched(expand_samples(t, level.id, level.size), 0, level.id)
               : t;
  });
}
}  // namespace

static void call_batched(const OpRecord& r, const Value* args, Result& out, LevelId level) {
  const VmapLevel here = vmap_level(level, r.spec.name);
  if (any_tangent_samples(r, args, here)) {
    ChangedArguments own(r, args);
    lift_tangents(here, own);
    return own.call(out);
  }
  BatchCall c(r, args, here, out);
  switch (r.traits.batch.rule) {
    case BatchRule::Rule::Pointwise:
      return pointwise(c);
    case BatchRule::Rule::Leading:
      return fits_core(c) ? pointwise(c) : c.loop();
    case BatchRule::Rule::ByDims:
      return by_dims(c) ? void() : c.loop();
    case BatchRule::Rule::ByShape:
      return by_shape(c);
    case BatchRule::Rule::Own:
      return r.traits.batch.own(c);
    default:
      return c.loop();
  }
}

static void call_batched_inplace(const OpRecord& r, const Tensor& self, const Value* args,
                                 LevelId level) {
  if (batch_level(self) != level)
    throw_cannot_batch(detail::concat(
        "vmap: inplace arithmetic ", r.spec.name,
        "_() is not possible: the written values differ from sample to sample, but the tensor "
        "that receives them is the same for all samples. Use the out-of-place ",
        r.spec.name,
        "(), or create the tensor inside of the vmap with new_zeros() or a similar method "
        "of a batched tensor."));
  ChangedArguments safe(r, args);
  bool recorded = false;
  each_tensor(r, args,
              [&](size_t, const Tensor& t) { recorded |= requires_grad(physical_tensor(t)); });
  if (recorded && thread_state.grad_enabled) {  // saved tensors must outlive the write
    const Tensor before = clone(self);
    safe.map([&](const Tensor& t) { return t.is(self) ? before : t; });
  }
  Result result;
  safe.call(result);
  const Tensor written =
      batch_level(result.tensor) == level
          ? batch_dim_first(result.tensor)
          : expand(result.tensor, detail::with_samples(vmap_level(level, r.spec.name).size,
                                                       result.tensor.sizes()));
  COGRAD_CHECK(same(self.sizes(), result.tensor.sizes()), "output with shape ",
               to_string(self.sizes()), " doesn't match the broadcast shape ",
               to_string(result.tensor.sizes()));
  detail::check_result(r.spec, self, result.tensor.dtype(), false);
  copy_(batch_dim_first(self), written);
}

namespace {

[[noreturn]] void fail_drawing(const OpRecord& r) {
  detail::fail(ErrorKind::Runtime, "vmap: called random operation ", r.spec.name,
               "() while in randomness error mode. Please either use the 'same' or 'different' "
               "randomness flags on vmap or perform the randomness operation out of vmap");
}

// The op whose random numbers are already drawn separately for all vmap levels.
constinit thread_local const OpRecord* t_drawn = nullptr;
struct RandomScope {
  explicit RandomScope(const OpRecord* r) noexcept : before(std::exchange(t_drawn, r)) {}
  ~RandomScope() { t_drawn = before; }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;
  const OpRecord* before;
};

// Draws from the innermost vmap level outwards; `depth` levels still need separate numbers.
void draw(const OpRecord& r, const Value* args, Result& out, size_t depth) {
  if (depth == 0) {
    const RandomScope here(&r);
    return run_stages(r, kPlainCall, args, out);
  }
  const VmapLevel level = vmap_levels()[depth - 1];
  if (level.randomness == Randomness::Error) fail_drawing(r);
  bool batched = false;
  each_tensor(r, args, [&](size_t, const Tensor& t) { batched |= batch_level(t) == level.id; });
  BatchCall c(r, args, level, out);
  if (level.randomness == Randomness::Same && !batched) return draw(r, args, out, depth - 1);
  if (any_tangent_samples(r, args, level)) {
    ChangedArguments own(r, args);
    lift_tangents(level, own);
    return draw(r, own.data(), out, depth);
  }
  const bool none = level.size == 0;  // one call determines the shapes
  std::vector<Result> results(none ? 1 : static_cast<size_t>(level.size));
  Generator* generator = &generator_or_default(nullptr);
  for (size_t i = 0; i < r.args.size(); ++i)
    if (r.args[i].kind == ArgKind::Generator && !args[i].none()) generator = args[i].generator();
  const auto state = generator->state();
  for (size_t b = 0; b < results.size(); ++b) {
    if (level.randomness == Randomness::Same) generator->set_state(state);
    ChangedArguments sample(r, args);
    sample.map([&](const Tensor& t) {
      if (!c.batched(t)) return t;
      return none ? ones(t.sizes(), t.dtype()) : select(c.physical(t), 0, static_cast<int64_t>(b));
    });
    draw(r, sample.data(), results[b], depth - 1);
  }
  stack_results(c, results);
  if (!none) return;
  generator->set_state(state);
  each_tensor(
      out, [&](Tensor& t) { t = make_batched(narrow(batch_dim_first(t), 0, 0, 0), 0, level.id); });
}

}  // namespace

static bool draws_nothing(const OpRecord& r, const Value* args) {
  const bool drops = std::string_view(r.spec.args).starts_with("input, p");
  if (!drops || r.args.size() < 3 || args[2].kind != COGRAD_BOOLEAN) return false;
  const double p = args[1].number();
  return !args[2].truth() || p == 0 || p == 1 || args[0].tensor().numel() == 0;
}

static void check_drawing_inplace(const OpRecord& r, const Tensor& self) {
  for (const VmapLevel& l : vmap_levels()) {
    if (l.randomness == Randomness::Error) fail_drawing(r);
    bool own = false;
    for (const Tensor* t = &self; is_batched(*t); t = &wrapped_tensor(*t))
      own |= batch_level(*t) == l.id;
    COGRAD_CHECK(
        own || l.randomness == Randomness::Same,
        "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This "
        "will appear like same randomness. If this is necessary for your usage, please use "
        "same randomness or create the tensor inside of the vmap. (",
        r.spec.name, "_)");
  }
}

namespace {

// Handles an op that draws random numbers inside of vmaps. False if the numbers are already drawn
// separately, so that the call is like any other.
bool call_drawing(const StagedCall& call) {
  const OpRecord& r = call.record;
  if (t_drawn == &r) return false;
  if (draws_nothing(r, call.args))
    r.run(r, call.form.past_stages(), call.args, call.out);
  else
    draw(r, call.args, call.out, vmap_levels().size());
  return true;
}

bool inplace_stage(const StagedCall& call, bool random) {
  const OpRecord& r = call.record;
  const Tensor& self = *call.form.target;
  check_captured(physical_tensor(self), r.spec.name);
  if (random && !draws_nothing(r, call.args)) check_drawing_inplace(r, self);
  const LevelId level = highest_batch_level(r, call.args);
  if (level == 0) return false;
  call_batched_inplace(r, self, call.args, level);
  return true;
}

}  // namespace

bool vmap_stage(const StagedCall& call) {
  const OpRecord& r = call.record;
  if (r.foreign != nullptr) return false;  // it handles its samples itself
  if (r.composite && !r.looped && call.form.form != Form::Out) return false;  // its ops have rules
  const bool random = (r.spec.flags & kKindMask) == kRandom;
  switch (call.form.form) {
    case Form::Out:
      check_transformed_out(r, {call.form.target, 1}, call.args);
      return false;
    case Form::InPlace:
      return inplace_stage(call, random);
    case Form::Plain:
      break;
  }
  if (random && thread_state.vmaps > 0 && r.traits.batch.rule != BatchRule::Rule::Through &&
      call_drawing(call))
    return true;
  const LevelId level = highest_batch_level(r, call.args);
  if (level == 0) return false;
  call_batched(r, call.args, call.out, level);
  return true;
}

}  // namespace cograd
