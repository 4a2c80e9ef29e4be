// SPDX-License-Identifier: BSD-3-Clause
// Captures of the fake driver. Captured work becomes nodes with the nodes that they depend on; a
// launch runs, of all that are ready, the node captured last: a missing dependency gives a wrong
// value. Calls that the driver forbids in a capture fail and spoil it, as the driver's do.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace {

enum : int {
  kIllegalState = 401,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 903,
  kCaptureUnmatched = 902,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
};
enum : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct Node {
  std::function<void()> run;
  std::vector<size_t> after;
};
using Nodes = std::vector<Node>;
using Tails = std::set<size_t>;  // the nodes that the next one of a stream follows

struct Stream;
struct Capture {
  uint64_t id = 0;
  Stream* origin = nullptr;
  int mode = kGlobal;
  std::thread::id thread;
  bool open = true, invalid = false;
  Nodes nodes;
  std::set<Stream*> streams;
};
struct Graph {
  std::shared_ptr<Nodes> nodes;
};

std::vector<Capture*>& captures() {  // all there have been
  static auto* c = new std::vector<Capture*>;
  return *c;
}
int64_t live_graphs = 0;
thread_local int capture_mode = kGlobal;

int spoil(Capture* c, int code) {
  if (c != nullptr && c->open) c->invalid = true;
  return code;
}
// The error of a call that may disturb captures, such as one that allocates.
int unsafe() {
  int result = 0;
  if (capture_mode == kRelaxed) return result;
  for (Capture* c : captures()) {
    if (!c->open) continue;
    const bool own = c->thread == std::this_thread::get_id();
    if (own ? c->mode != kRelaxed : capture_mode == kGlobal && c->mode == kGlobal)
      result = spoil(c, kCaptureUnsupported);
  }
  return result;
}
// The error of a call that waits for everything.
int waits_for_all() {
  int result = 0;
  for (Capture* c : captures())
    if (c->open) result = spoil(c, kCaptureUnsupported);
  return result;
}

// True if the work of every node comes before `end`.
bool joined(const Nodes& nodes, const Tails& end) {
  std::vector<bool> seen(nodes.size());
  std::vector<size_t> open(end.begin(), end.end());
  while (!open.empty()) {
    const size_t i = open.back();
    open.pop_back();
    if (seen[i]) continue;
    seen[i] = true;
    open.insert(open.end(), nodes[i].after.begin(), nodes[i].after.end());
  }
  return std::count(seen.begin(), seen.end(), false) == 0;
}

void run_nodes(const Nodes& nodes) {
  std::vector<bool> done(nodes.size());
  for (size_t left = nodes.size(); left > 0; --left)
    for (size_t i = nodes.size(); i-- > 0;) {
      const auto ready = [&](size_t k) { return static_cast<bool>(done[k]); };
      if (done[i] || !std::all_of(nodes[i].after.begin(), nodes[i].after.end(), ready)) continue;
      nodes[i].run();
      done[i] = true;
      break;
    }
}

}  // namespace
