// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/lib/nccl.h"

#include <cstring>

#include "cograd/error.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/launch.h"
#include "cuda/driver/timing.h"

namespace cograd::cuda {

namespace {

using Communicator = struct NcclComm_st*;
// It is passed by value.
struct UniqueId {
  char bytes[128];
};
constexpr int kDone = 0, kInProgress = 7;

struct Loaded {
  Loaded()
      : library({"NCCL", "COGRAD_NCCL", "libnccl.so.2", "libnccl.so.2", "nccl",
                 "nvidia-nccl-cu13 (CUDA 13) or nvidia-nccl-cu12"}) {
    library.get(version, "ncclGetVersion");
    library.get(unique_id, "ncclGetUniqueId");
    library.get(init, "ncclCommInitRank");
    library.get(destroy, "ncclCommDestroy");
    library.get(abort, "ncclCommAbort");
    library.get(async_error, "ncclCommGetAsyncError");
    library.get(error_string, "ncclGetErrorString");
    library.get(last_error, "ncclGetLastError");
    library.get(group_start, "ncclGroupStart");
    library.get(group_end, "ncclGroupEnd");
    library.get(all_reduce, "ncclAllReduce");
    library.get(broadcast, "ncclBroadcast");
    library.get(reduce, "ncclReduce");
    library.get(all_gather, "ncclAllGather");
    library.get(reduce_scatter, "ncclReduceScatter");
    library.get(send, "ncclSend");
    library.get(receive, "ncclRecv");
  }
  Library library;
  int (*version)(int*) = nullptr;
  int (*unique_id)(UniqueId*) = nullptr;
  int (*init)(Communicator*, int size, UniqueId, int rank) = nullptr;
  int (*destroy)(Communicator) = nullptr;
  int (*abort)(Communicator) = nullptr;
  int (*async_error)(Communicator, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  const char* (*last_error)(Communicator) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int op, Communicator, CUstream) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, Communicator,
                   CUstream) = nullptr;
  int (*reduce)(const void*, void*, size_t, int type, int op, int root, Communicator,
                CUstream) = nullptr;
  int (*all_gather)(const void*, void*, size_t sent, int type, Communicator, CUstream) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t received, int type, int op, Communicator,
                        CUstream) = nullptr;
  int (*send)(const void*, size_t, int type, int peer, Communicator, CUstream) = nullptr;
  int (*receive)(void*, size_t, int type, int peer, Communicator, CUstream) = nullptr;
};
const Loaded& loaded() {
  static const Loaded l;
  return l;
}
const Loaded& api() {
  const Loaded& l = loaded();
  COGRAD_CHECK(l.library.found(), "NCCL: ", l.library.why());
  return l;
}

std::string words(const Loaded& a, int result, Communicator c) {
  const char* more = a.last_error(c);
  std::string text = std::string(a.error_string(result)) + " (" + std::to_string(result) + ")";
  if (more != nullptr && *more != '\0') text += std::string(": ") + more;
  return text;
}
void check_result(const Loaded& a, int result, const char* call, const char* function,
                  Communicator c = nullptr) {
  if (result == kDone || result == kInProgress) [[likely]]
    return;
  detail::fail(ErrorKind::Runtime, call, ": NCCL failed in ", function, ": ", words(a, result, c));
}

Communicator communicator_of(uint64_t handle) noexcept {
  return reinterpret_cast<Communicator>(handle);  // NOLINT(performance-no-int-to-ptr)
}

class Calls final : public Nccl {
 public:
  std::string why_not() override { return loaded().library.why(); }
  int version() override {
    int v = 0;
    check_result(api(), api().version(&v), "nccl.version()", "ncclGetVersion");
    return v;
  }
  std::string unique_id() override {
    UniqueId id{};
    check_result(api(), api().unique_id(&id), "init_process_group", "ncclGetUniqueId");
    return {id.bytes, sizeof id.bytes};
  }
  uint64_t join(int device, const std::string& id, int rank, int size) override {
    UniqueId own{};
    COGRAD_CHECK_VALUE(id.size() == sizeof own.bytes, "NCCL: an id has ", sizeof own.bytes,
                       " bytes, got ", id.size());
    std::memcpy(own.bytes, id.data(), id.size());
    gpu(device).activate();
    Communicator c = nullptr;
    check_result(api(), api().init(&c, size, own, rank), "init_process_group", "ncclCommInitRank");
    return reinterpret_cast<uint64_t>(c);
  }
  void leave(uint64_t communicator, bool abort) noexcept override {
    if (forked()) return;
    const Communicator c = communicator_of(communicator);
    abort ? api().abort(c) : api().destroy(c);
  }
  void run(const char* name, uint64_t communicator, int device, uint64_t stream,
           const std::vector<NcclCall>& calls) override {
    const Loaded& a = api();
    Gpu& g = gpu(device);
    g.activate();
    const Communicator c = communicator_of(communicator);
    const auto s = reinterpret_cast<CUstream>(stream);  // NOLINT(performance-no-int-to-ptr)
    const bool several = calls.size() > 1;
    {
      const Timed timed(name, &g);
      if (several) check_result(a, a.group_start(), name, "ncclGroupStart", c);
      int result = kDone;
      const char* function = "";
      for (const NcclCall& call : calls) {
        result = start(a, call, c, s, &function);
        if (result != kDone && result != kInProgress) break;
      }
      // A group that has begun must end, also after a failure.
      const int ended = several ? a.group_end() : kDone;
      check_result(a, result, name, function, c);
      check_result(a, ended, name, "ncclGroupEnd", c);
    }
    launched(name);
  }
  std::string failure(uint64_t communicator) override {
    if (forked()) return {};
    const Communicator c = communicator_of(communicator);
    int found = kDone;
    const int result = api().async_error(c, &found);
    if (result != kDone) found = result;
    return found == kDone || found == kInProgress ? std::string() : words(api(), found, c);
  }

 private:
  static int start(const Loaded& a, const NcclCall& call, Communicator c, CUstream s,
                   const char** function) {
    const auto* from = reinterpret_cast<const void*>(call.from);  // NOLINT
    auto* to = reinterpret_cast<void*>(call.to);                  // NOLINT
    switch (call.kind) {
      case NcclCall::Kind::AllReduce:
        *function = "ncclAllReduce";
        return a.all_reduce(from, to, call.count, call.type, call.op, c, s);
      case NcclCall::Kind::Broadcast:
        *function = "ncclBroadcast";
        return a.broadcast(from, to, call.count, call.type, call.peer, c, s);
      case NcclCall::Kind::Reduce:
        *function = "ncclReduce";
        return a.reduce(from, to, call.count, call.type, call.op, call.peer, c, s);
      case NcclCall::Kind::AllGather:
        *function = "ncclAllGather";
        return a.all_gather(from, to, call.count, call.type, c, s);
      case NcclCall::Kind::ReduceScatter:
        *function = "ncclReduceScatter";
        return a.reduce_scatter(from, to, call.count, call.type, call.op, c, s);
      case NcclCall::Kind::Send:
        *function = "ncclSend";
        return a.send(from, call.count, call.type, call.peer, c, s);
      case NcclCall::Kind::Receive:
        *function = "ncclRecv";
        return a.receive(to, call.count, call.type, call.peer, c, s);
    }
    return kDone;
  }
};

}  // namespace

Nccl& nccl_calls() {
  static auto* calls = new Calls;
  return *calls;
}
const Library& nccl_library() { return loaded().library; }

}  // namespace cograd::cuda
