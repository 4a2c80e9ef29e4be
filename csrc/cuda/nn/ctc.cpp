// SPDX-License-Identifier: BSD-3-Clause
// The slots of kernels/nn/ctc.h.
#include "kernels/nn/ctc.h"

#include <limits>
#include <optional>
#include <vector>

#include "cuda/args/ctc_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"

namespace cograd::cuda {

using kernels::Ctc;

namespace {

const long long* numbers(const int64_t* p) { return reinterpret_cast<const long long*>(p); }

// The arguments with the memory that the recursions need.
class Recursion {
 public:
  Recursion(const Ctc& c, const void* log_probs) {
    std::vector<int64_t> lengths(static_cast<size_t>(c.batch));
    if (c.batch > 0) read_back(c.target_lengths, lengths.data(), lengths.size() * sizeof(int64_t));
    const int64_t most = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    COGRAD_CHECK(most < INT32_MAX / 2 - 2, "ctc_loss: there are ", most, " labels, expected fewer");
    args.width = 2 * most + 1;
    args.log_probs = log_probs;
    args.targets = numbers(c.targets);
    args.offsets = numbers(c.offsets);
    args.input_lengths = numbers(c.input_lengths);
    args.target_lengths = numbers(c.target_lengths);
    args.steps = c.steps;
    args.batch = c.batch;
    args.classes = c.classes;
    args.blank = c.blank;
    args.alpha =
        alpha_.emplace(states() * sizeof(double) * static_cast<size_t>(c.steps)).get<double>();
  }
  void for_backward() {
    args.next = next_.emplace(2 * states() * sizeof(double)).get<double>();
    args.share = share_.emplace(states() * sizeof(double)).get<double>();
    args.following = following_.emplace(states() * sizeof(int)).get<int>();
  }
  void run(const char* name, DType t) const {
    if (args.batch > 0)
      launch(name, function_of("ctc.h", name, t), grid_of(args.batch, device::kCtcThreads), args);
  }

  device::CtcArgs args{};

 private:
  size_t states() const { return static_cast<size_t>(args.batch * args.width); }

  std::optional<Scratch> alpha_, next_, share_, following_;
};

}  // namespace

void ctc_forward(DType t, const Ctc& c, const void* log_probs, void* losses) {
  Recursion r(c, log_probs);
  r.args.losses = losses;
  r.run("ctc_forward", t);
}
COGRAD_CUDA_SLOT(ctc_forward)

void ctc_backward(DType t, const Ctc& c, const void* log_probs, const void* g, void* out) {
  set_bytes(out, 0, c.steps * c.batch * c.classes * dtype_size(t));
  Recursion r(c, log_probs);
  r.for_backward();
  r.args.g = g;
  r.args.out = out;
  r.run("ctc_backward", t);
}
COGRAD_CUDA_SLOT(ctc_backward)

bool ctc_labels_within(const int64_t* labels, int64_t n, int64_t width, const int64_t* lengths,
                       int64_t classes, int64_t* bad) {
  if (n == 0) return true;
  const Scratch found(sizeof(uint64_t));
  set_bytes(found.data(), 0xFF, sizeof(uint64_t));
  const device::CtcLabelArgs args{
      numbers(labels), numbers(lengths), found.get<unsigned long long>(), n, width, classes};
  launch("ctc_loss", function_of("ctc.h", "ctc_outside", DType::Float32), grid_over(n), args);
  const auto first = read_back<uint64_t>(found.data());
  if (first == std::numeric_limits<uint64_t>::max()) return true;
  read_back(labels + first, bad, sizeof *bad);
  return false;
}
COGRAD_CUDA_SLOT(ctc_labels_within)

}  // namespace cograd::cuda
