// SPDX-License-Identifier: BSD-3-Clause
// Compares the text of elementwise rows, compiled by g++, with the CPU's loops.
//
//   check list               a line for each row
//   check emit ROW...        the text of the rows' kernels, to compile with tests/cuda/fake/host.h
//   check run LIBRARY ROW... runs them on samples; prints what differs by more than the bound
//   check program ROW DRIVER the text that NVRTC would get
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "compare.h"
#include "cuda/args/optim_args.h"
#include "cuda/jit/rows.h"
#include "cuda/jit/text.h"
#include "cuda/slots/loop_args.h"
#include "kernels/elementwise/tables.h"
#include "samples.h"

namespace {

using namespace cograd;
using namespace cograd::cuda;
using kernels::Operand;

using Kernel = void (*)(const void*);
using Launch = void (*)(Kernel, const unsigned*, const unsigned*, unsigned, const void*);

std::string kernel_name(size_t row, int driver) {
  return "row_" + std::to_string(row) + "_" + std::to_string(driver);
}

void emit(const std::vector<size_t>& chosen) {
  std::set<std::string> headers;
  std::string text;
  for (size_t i : chosen) {
    const LoopRow& row = loop_rows()[i];
    if (why_no_kernel(row) != nullptr) continue;
    headers.insert(row_headers(row));
    const std::string op = "Op" + std::to_string(i);
    text += row_op(row, op);
    for (int d = 0; d < (row.kind == LoopKind::Optim ? 1 : i % 8 == 0 ? 3 : 2); ++d)
      text += row_kernel(row, Driver(d), op, kernel_name(i, d));
  }
  std::string all;
  for (const std::string& h : headers) all += h;
  std::cout << with_includes(all + "namespace cograd::device {\n" + text + "}\n");
}

// One case: shape and strides in elements of each operand, and which inputs are host numbers.
struct Case {
  const char* name;
  std::vector<int64_t> shape;
  int kind;
};
enum { kContiguous, kTransposed, kBroadcast, kNumber, kOffset };
const Case kCases[] = {
    {"contiguous", {1000}, kContiguous},
    {"transposed", {7, 11}, kTransposed},
    {"broadcast", {5, 4, 6}, kBroadcast},
    {"number", {40}, kNumber},
    {"offset", {33}, kOffset},
    {"scalar", {}, kContiguous},
    {"empty", {3, 0}, kContiguous},
};

// Elements (not bytes) between neighbours along each dim.
std::vector<int64_t> strides_of(const Case& c, int k) {
  const size_t n = c.shape.size();
  std::vector<int64_t> s(n);
  int64_t step = 1;
  for (size_t d = n; d-- > 0;) {
    s[d] = step;
    step *= c.shape[d] == 0 ? 1 : c.shape[d];
  }
  if (c.kind == kTransposed && k % 2 == 1) s = {1, c.shape[0]};
  if (c.kind == kBroadcast && k > 0) s[static_cast<size_t>(k) % n] = 0;
  if (c.kind == kNumber && k > 1) s.assign(n, 0);
  return s;
}

struct Memory {
  std::vector<char> bytes;
  char* at;
};

class Checker {
 public:
  Checker(size_t index, void* library)
      : index_(index), row_(loop_rows()[index]), library_(library) {
    launch_ = reinterpret_cast<Launch>(dlsym(library, "cograd_twin_launch"));
  }
  bool run() {
    bool good = true;
    for (const Case& c : kCases) good &= run_case(c);
    return good;
  }

 private:
  void start(const LoopLaunch& l) {
    const int driver = static_cast<int>(l.driver);
    const unsigned grid[] = {l.blocks, 1, 1}, block[] = {kLoopThreads, 1, 1};
    // A row that has the kernel of large tensors, too, runs it wherever it would run the other.
    void* f = driver == 1 ? dlsym(library_, kernel_name(index_, 2).c_str()) : nullptr;
    if (f == nullptr) f = dlsym(library_, kernel_name(index_, driver).c_str());
    launch_(reinterpret_cast<Kernel>(f), grid, block, 0, l.args);
  }

  // Runs a case on the CPU and by the kernel; moving a Memory keeps its addresses.
  bool run_case(const Case& c) {
    const bool optim = row_.kind == LoopKind::Optim;
    const int count = optim ? kMostOperands : 1 + static_cast<int>(row_.inputs.size());
    if (c.kind == kNumber && count < 3) return true;
    if (optim && c.kind != kContiguous) return true;
    const Samples samples(row_);
    const ParamsOf params(row_);
    std::vector<Memory> memory;
    std::vector<std::vector<int64_t>> strides;
    for (int k = 0; k < count; ++k) {
      const int64_t size = operand_size(row_, k);
      std::vector<int64_t> s = strides_of(c, k);
      Memory m;
      m.bytes.resize(static_cast<size_t>(64 + 1100 * size));
      m.at = m.bytes.data() + (64 - reinterpret_cast<uintptr_t>(m.bytes.data()) % 64) % 64;
      if (c.kind == kOffset) m.at += size;
      samples.fill(m.at, 1000, k);
      for (int64_t& v : s) v *= size;
      strides.push_back(s);
      memory.push_back(std::move(m));
    }
    std::vector<Operand> ops;
    for (int k = 0; k < count; ++k)
      ops.push_back({memory[static_cast<size_t>(k)].at, strides[static_cast<size_t>(k)].data()});
    const int ndim = static_cast<int>(c.shape.size());
    std::vector<std::vector<char>> before;
    for (const Memory& m : memory) before.push_back(m.bytes);
    kernels::run_loop(samples.loop(), ndim, c.shape.data(), ops.data(), count, params.get());
    std::vector<std::vector<char>> want;
    for (size_t k = 0; k < memory.size(); ++k) {
      want.push_back(memory[k].bytes);
      std::memcpy(memory[k].bytes.data(), before[k].data(), before[k].size());
    }
    const Nest nest(ndim, c.shape.data(), ops.data(), count);
    const unsigned host = c.kind == kNumber ? 1u << (count - 1) : 0;
    if (optim)
      run_optim(nest, params.get());
    else
      each_launch(row_, nest, host, params.get(), nullptr, [&](const LoopLaunch& l) { start(l); });
    bool good = true;
    for (int k = 0; k < (optim ? count : 1); ++k) {
      const auto i = static_cast<size_t>(k);
      good &= report(c, k, memory[i].at, want[i].data() + (memory[i].at - memory[i].bytes.data()));
    }
    return good;
  }

  void run_optim(const Nest& nest, const void* params) {
    if (nest.total == 0) return;
    device::OptimArgs a{};
    std::memcpy(a.scalars, params, sizeof a.scalars);
    a.count = 1;
    a.aligned = 1;
    for (int k = 0; k < nest.nops; ++k) a.tensors[0].data[k] = nest.data[k];
    a.tensors[0].n = nest.total;
    start({Driver::Flat, 1, &a});
  }

  bool report(const Case& c, int k, const char* got, const char* want) {
    const Comparison r = compare(row_, k, got, want, 1000);
    if (r.good) return true;
    std::printf("%zu %s %s -> %s, %s, operand %d: element %d is %s, expected %s\n", index_,
                std::string(row_.name).c_str(), dtype_name(row_.type), dtype_name(row_.out), c.name,
                k, r.at, r.got.c_str(), r.want.c_str());
    return false;
  }

  size_t index_;
  const LoopRow& row_;
  void* library_;
  Launch launch_;
};

int run(const char* path, const std::vector<size_t>& chosen) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  int bad = 0, run = 0;
  for (size_t i : chosen) {
    if (why_no_kernel(loop_rows()[i]) != nullptr) continue;
    ++run;
    bad += !Checker(i, library).run();
  }
  std::printf("%d rows run, %d differ\n", run, bad);
  return bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  std::vector<size_t> chosen;
  for (int i = command == "run" ? 3 : 2; i < argc; ++i) chosen.push_back(std::stoul(argv[i]));
  if (command == "list") {
    for (size_t i = 0; i < loop_rows().size(); ++i) {
      const LoopRow& r = loop_rows()[i];
      std::printf("%zu %s %s %s %s %d\n", i, std::string(r.name).c_str(), dtype_name(r.type),
                  dtype_name(r.out), why_no_kernel(r) == nullptr ? "yes" : "no",
                  static_cast<int>(r.kind));
    }
  } else if (command == "emit") {
    emit(chosen);
  } else if (command == "run") {
    return run(argv[2], chosen);
  } else if (command == "program") {
    std::cout << with_includes(row_program(loop_rows()[chosen[0]], Driver(chosen[1])));
  } else {
    return 2;
  }
  return 0;
}
