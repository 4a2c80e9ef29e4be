// SPDX-License-Identifier: BSD-3-Clause
// Anomaly mode: searches the gradients that a node returned for nan and infinities.
#include "autograd/modes/watch.h"
#include "autograd/run/run.h"

namespace cograd {

namespace {

[[noreturn]] void fail_not_finite(Node* n, std::span<const Tensor> grads, const Tensor& t, size_t i,
                                  int64_t at, bool explained) {
  const std::string text = element_text(t, at);
  std::string why;
  if (explained && watch_handlers.explain != nullptr) why = watch_handlers.explain(n, grads, i);
  detail::fail(ErrorKind::Runtime, "Function '", n->name(), "' returned ",
               text.find("nan") != std::string::npos ? "nan" : "inf", " values in its ", i,
               "th output. The first is ", text, " at index ", coordinates(t, at),
               " of a gradient of shape ", to_string(t.sizes()), ".", why);
}

}  // namespace

void check_finite(Node* n, const BackwardArgs& args, uint32_t watch, std::span<const Tensor> grads,
                  bool explained) {
  const bool inf = (watch & kWatchInf) != 0;
  for (size_t i = 0; i < args.out.size(); ++i) {
    const Tensor& t = args.out[i];
    if (!t.defined()) continue;
    const int64_t at = find_nonfinite(t, true, inf);
    if (at < 0) continue;
    // When infinities are searched for, blame only a node whose incoming gradients are all finite.
    if (inf)
      for (const Tensor& g : grads)
        if (g.defined() && find_nonfinite(g, true, true) >= 0) return;
    try {
      fail_not_finite(n, grads, t, i, at, explained);
    } catch (...) {
      if (!args.keep_graph) n->release_saved();
      throw;
    }
  }
}

}  // namespace cograd
