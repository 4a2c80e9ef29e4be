// SPDX-License-Identifier: BSD-3-Clause
// Graphs: the work of captured streams, with the memory that it uses.
#pragma once
#include <atomic>
#include <memory>

#include "cuda/driver/api.h"
#include "tensor/backend.h"

namespace cograd::cuda {

std::unique_ptr<GpuGraph> make_graph();
uint64_t new_graph_pool() noexcept;
// The captures that a thread has dropped which may not end them. Each waits for its own thread,
// which ends it here before it uses a GPU.
extern std::atomic<int> dropped_captures;
void end_dropped_captures();
// Returns the numbers of a generator in the capture of a stream; null if it is not captured.
CapturedRandom* captured_random(CUstream s, const void* generator);
// Keeps the pinned block that holds p as it is while the graph lives that captures the stream: each
// replay reads it. Returns false if the stream is not captured.
bool keep_for_graph(CUstream s, const void* p);
// Captures a copy of bytes that may change after the call: each replay copies their value of now.
// Returns false if the stream is not captured.
bool capture_constant(CUstream s, const void* from, CUdeviceptr to, size_t bytes);

}  // namespace cograd::cuda
