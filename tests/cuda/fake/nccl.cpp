// SPDX-License-Identifier: BSD-3-Clause
// A library with NCCL's functions whose ranks are processes on the fake driver. What a rank gives
// goes to files of a folder that the unique id names. A thread gives it once the stream has reached
// it, as a GPU would; what a rank gets is written as late as the driver allows.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "library.h"

namespace fs = std::filesystem;

namespace {

enum { kSuccess = 0, kSystem = 2, kInvalidArgument = 4, kInvalidUsage = 5 };
enum Type {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBfloat16
};
enum Op { kSum, kProd, kMax, kMin, kAvg };
enum class Kind : int64_t { AllReduce, Broadcast, Reduce, AllGather, ReduceScatter, Send, Receive };

std::atomic<int> broken{0};
thread_local std::string last_error;

struct Comm {
  std::string folder;
  int rank, size, device;
  int64_t calls = 0;
  std::map<int, int64_t> sent = {}, received = {};
  std::atomic<bool> aborted{false};
  std::atomic<int> error{0};
};

constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

struct Call {
  Kind kind;
  const char* from;
  char* to;
  size_t count;
  int type, op, peer;
  Comm* comm;
  void* stream;
  int64_t number = 0;
  size_t bytes() const { return count * kSizes[type]; }
  bool is_message() const { return kind == Kind::Send || kind == Kind::Receive; }
  bool gives() const {
    return kind == Kind::Broadcast ? comm->rank == peer : kind != Kind::Receive;
  }
  size_t given() const { return bytes() * (kind == Kind::ReduceScatter ? comm->size : 1); }
  std::vector<int> sources() const {
    if (kind == Kind::Send || (kind == Kind::Reduce && comm->rank != peer)) return {};
    if (kind == Kind::Receive || kind == Kind::Broadcast) return {peer};
    std::vector<int> all(comm->size);
    for (int r = 0; r < comm->size; ++r) all[r] = r;
    return all;
  }
  std::string file(int giver) const {
    const int taker = kind == Kind::Send ? peer : comm->rank;
    const std::string what = is_message() ? "m" + std::to_string(taker) : "c";
    return comm->folder + "/" + what + "." + std::to_string(number) + "." + std::to_string(giver);
  }
};

struct Header {
  int64_t kind, count, type, op, peer;
  bool operator==(const Header&) const = default;
};
Header header_of(const Call& c) {
  if (c.is_message()) return {0, static_cast<int64_t>(c.count), c.type, 0, 0};
  return {static_cast<int64_t>(c.kind), static_cast<int64_t>(c.count), c.type, c.op, c.peer};
}

void write_file(const std::string& path, const std::string& bytes) {
  const std::string draft = path + ".new";
  std::ofstream(draft, std::ios::binary) << bytes;
  std::error_code e;
  fs::rename(draft, path, e);
}
std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

// ---- arithmetic

float from_bfloat16(uint16_t v) {
  const uint32_t bits = uint32_t{v} << 16;
  float f = 0;
  memcpy(&f, &bits, 4);
  return f;
}
uint16_t to_bfloat16(float f) {
  uint32_t bits = 0;
  memcpy(&bits, &f, 4);
  if (std::isnan(f)) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
template <class T>
T combined(T a, T b, int op) {
  switch (op) {
    case kProd:
      return static_cast<T>(a * b);
    case kMax:
      return a > b ? a : b;
    case kMin:
      return a < b ? a : b;
    default:
      return static_cast<T>(a + b);
  }
}
template <class T, class Wide, class Load, class Store>
void reduce_as(const std::vector<const char*>& parts, size_t n, int op, char* to, Load load,
               Store store) {
  for (size_t i = 0; i < n; ++i) {
    Wide total{};
    for (size_t r = 0; r < parts.size(); ++r) {
      T v;
      memcpy(&v, parts[r] + i * sizeof(T), sizeof(T));
      total = r == 0 ? load(v) : combined(total, load(v), op);
    }
    if (op == kAvg) total = static_cast<Wide>(total / static_cast<Wide>(parts.size()));
    const T v = store(total);
    memcpy(to + i * sizeof(T), &v, sizeof(T));
  }
}
template <class T, class Wide = T>
void reduce_plain(const std::vector<const char*>& parts, size_t n, int op, char* to) {
  reduce_as<T, Wide>(
      parts, n, op, to, [](T v) { return static_cast<Wide>(v); },
      [](Wide v) { return static_cast<T>(v); });
}
void reduce(const std::vector<const char*>& parts, size_t n, int type, int op, char* to) {
  switch (type) {
    case kInt8:
      return reduce_plain<int8_t>(parts, n, op, to);
    case kUint8:
      return reduce_plain<uint8_t>(parts, n, op, to);
    case kInt32:
      return reduce_plain<int32_t>(parts, n, op, to);
    case kUint32:
      return reduce_plain<uint32_t>(parts, n, op, to);
    case kInt64:
      return reduce_plain<int64_t>(parts, n, op, to);
    case kUint64:
      return reduce_plain<uint64_t>(parts, n, op, to);
    case kFloat16:
      return reduce_plain<_Float16, float>(parts, n, op, to);
    case kFloat32:
      return reduce_plain<float>(parts, n, op, to);
    case kFloat64:
      return reduce_plain<double>(parts, n, op, to);
    default:
      return reduce_as<uint16_t, float>(parts, n, op, to, from_bfloat16, to_bfloat16);
  }
}

// ---- the work of streams

void give(const std::vector<Call>& calls) {
  for (const Call& c : calls) {
    if (!c.gives() || c.comm->aborted) continue;
    const Header h = header_of(c);
    std::string bytes(reinterpret_cast<const char*>(&h), sizeof h);
    bytes.append(c.from, c.given());
    write_file(c.file(c.comm->rank), bytes);
  }
}
bool is_there(const std::vector<Call>& calls) {
  for (const Call& c : calls) {
    if (c.comm->aborted) continue;
    for (int r : c.sources())
      if (!fs::exists(c.file(r))) return false;
  }
  return true;
}
void take(const std::vector<Call>& calls) {
  for (const Call& c : calls) {
    if (c.comm->aborted) continue;
    const std::vector<int> from = c.sources();
    std::vector<std::string> files;
    std::vector<const char*> parts;
    for (int r : from) {
      files.push_back(read_file(c.file(r)));
      Header h{};
      memcpy(&h, files.back().data(), sizeof h);
      if (h == header_of(c)) continue;
      fprintf(stderr, "fake NCCL: rank %d made another call than rank %d\n", r, c.comm->rank);
      c.comm->error = kInvalidUsage;
      return;
    }
    const size_t skip = c.kind == Kind::ReduceScatter ? c.bytes() * c.comm->rank : 0;
    for (const std::string& f : files) parts.push_back(f.data() + sizeof(Header) + skip);
    if (c.kind == Kind::AllGather) {
      for (size_t r = 0; r < parts.size(); ++r) memcpy(c.to + r * c.bytes(), parts[r], c.bytes());
    } else if (c.kind == Kind::Broadcast || c.kind == Kind::Receive) {
      memcpy(c.to, parts[0], c.bytes());
    } else if (!parts.empty()) {
      reduce(parts, c.count, c.type, c.op, c.to);
    }
    if (c.kind == Kind::Receive) fs::remove(c.file(c.peer));
  }
}

// What the driver offers besides library.h.
struct More {
  More() {
    void* const library = dlopen(getenv("COGRAD_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    enqueue_ready =
        reinterpret_cast<decltype(enqueue_ready)>(dlsym(library, "fake_cuda_enqueue_ready"));
    mark = reinterpret_cast<decltype(mark)>(dlsym(library, "fake_cuda_mark"));
    reach = reinterpret_cast<decltype(reach)>(dlsym(library, "fake_cuda_reach"));
    if (enqueue_ready == nullptr || mark == nullptr || reach == nullptr) abort();
  }
  void (*enqueue_ready)(const char*, void*, void (*)(void*), bool (*)(void*), void*) = nullptr;
  void* (*mark)(void*) = nullptr;
  int (*reach)(void*) = nullptr;
};
const More& more() {
  static const More m;
  return m;
}

// Brings streams to the marks behind what this rank gives.
class Pusher {
 public:
  void add(void* mark) {
    const std::lock_guard lock(mutex_);
    marks_.push_back(mark);
    if (!running_) std::thread([this] { run(); }).detach();
    running_ = true;
    changed_.notify_one();
  }

 private:
  void run() {
    while (true) {
      std::vector<void*> now;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !marks_.empty(); });
        now.assign(marks_.begin(), marks_.end());
      }
      usleep(2000);
      for (void* m : now) {
        if (more().reach(m) == 0) continue;
        const std::lock_guard lock(mutex_);
        std::erase(marks_, m);
      }
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<void*> marks_;
  bool running_ = false;
};
Pusher& pusher() {
  static auto* p = new Pusher;
  return *p;
}

void start(const char* name, const std::vector<Call>& calls) {
  auto* kept = new std::vector<Call>(calls);
  void* const stream = calls[0].stream;
  fake::driver().enqueue(name, stream, [kept] { give(*kept); });
  pusher().add(more().mark(stream));
  more().enqueue_ready(
      "nccl take", stream, [](void* c) { take(*static_cast<std::vector<Call>*>(c)); },
      [](void* c) { return is_there(*static_cast<std::vector<Call>*>(c)); }, kept);
}

thread_local int depth = 0;
thread_local std::vector<Call> grouped;

int add(const char* name, Call c) {
  if (c.comm == nullptr || c.type < 0 || c.type > kBfloat16 || c.peer < 0 ||
      c.peer >= c.comm->size || fake::driver().device() != c.comm->device) {
    last_error = std::string(name) + ": an argument is not valid";
    return kInvalidArgument;
  }
  const size_t all = c.bytes() * (c.kind == Kind::AllGather ? c.comm->size : 1);
  if ((c.from != nullptr && !fake::driver().owns(c.from, c.given())) ||
      (c.to != nullptr && !fake::driver().owns(c.to, all))) {
    last_error = std::string(name) + ": the buffer is not memory of a GPU";
    return kInvalidArgument;
  }
  if (c.kind == Kind::Send)
    c.number = c.comm->sent[c.peer]++;
  else if (c.kind == Kind::Receive)
    c.number = c.comm->received[c.peer]++;
  else
    c.number = c.comm->calls++;
  if (depth > 0)
    grouped.push_back(c);
  else
    start(name, {c});
  return kSuccess;
}

template <class F>
bool wait_for(F&& f, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!f()) {
    if (std::chrono::steady_clock::now() > end) return false;
    usleep(500);
  }
  return true;
}
bool all_wrote(const Comm& c, const char* name) {
  for (int r = 0; r < c.size; ++r)
    if (!fs::exists(c.folder + "/" + name + std::to_string(r))) return false;
  return true;
}

}  // namespace

struct UniqueId {
  char bytes[128];
};

FAKE_API ncclGetVersion(int* version) {
  *version = 22000;
  return kSuccess;
}
FAKE_API ncclGetUniqueId(UniqueId* id) {
  FAKE_ENTER(ncclGetUniqueId);
  std::string folder = (fs::temp_directory_path() / "cograd-nccl-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr || folder.size() >= sizeof id->bytes) return kSystem;
  memset(id->bytes, 0, sizeof id->bytes);
  memcpy(id->bytes, folder.data(), folder.size());
  return kSuccess;
}
FAKE_API ncclCommInitRank(Comm** comm, int size, UniqueId id, int rank) {
  FAKE_ENTER(ncclCommInitRank);
  if (rank < 0 || rank >= size) return kInvalidArgument;
  auto* c = new Comm{id.bytes, rank, size, fake::driver().device()};
  write_file(c->folder + "/join" + std::to_string(rank), "1");
  if (!wait_for([&] { return all_wrote(*c, "join"); }, 30)) return kSystem;
  *comm = c;
  return kSuccess;
}
FAKE_API ncclCommDestroy(Comm* c) {
  FAKE_ENTER(ncclCommDestroy);
  write_file(c->folder + "/left" + std::to_string(c->rank), "1");
  if (c->rank == 0 && wait_for([&] { return all_wrote(*c, "left"); }, 10))
    fs::remove_all(c->folder);
  return kSuccess;
}
FAKE_API ncclCommAbort(Comm* c) {
  FAKE_ENTER(ncclCommAbort);
  c->aborted = true;
  return kSuccess;
}
FAKE_API ncclCommGetAsyncError(Comm* c, int* error) {
  *error = broken != 0 ? broken.load() : c->error.load();
  return kSuccess;
}
extern "C" __attribute__((visibility("default"))) void fake_nccl_break(int code) { broken = code; }
extern "C" __attribute__((visibility("default"))) const char* ncclGetErrorString(int code) {
  return code == kInvalidArgument ? "invalid argument"
         : code == kInvalidUsage  ? "invalid usage"
         : code == kSystem        ? "unhandled system error"
                                  : "a failure of the fake NCCL";
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(Comm*) {
  return last_error.c_str();
}
FAKE_API ncclGroupStart() {
  ++depth;
  return kSuccess;
}
FAKE_API ncclGroupEnd() {
  if (--depth > 0) return kSuccess;
  const std::vector<Call> calls = std::move(grouped);
  grouped.clear();
  FAKE_ENTER(ncclGroupEnd);
  if (!calls.empty()) start("ncclGroup", calls);
  return kSuccess;
}

FAKE_API ncclAllReduce(const char* from, char* to, size_t n, int type, int op, Comm* c, void* s) {
  FAKE_ENTER(ncclAllReduce);
  return add("ncclAllReduce", {Kind::AllReduce, from, to, n, type, op, 0, c, s});
}
FAKE_API ncclBroadcast(const char* from, char* to, size_t n, int type, int root, Comm* c, void* s) {
  FAKE_ENTER(ncclBroadcast);
  return add("ncclBroadcast", {Kind::Broadcast, from, to, n, type, 0, root, c, s});
}
FAKE_API ncclReduce(const char* from, char* to, size_t n, int type, int op, int root, Comm* c,
                    void* s) {
  FAKE_ENTER(ncclReduce);
  return add("ncclReduce", {Kind::Reduce, from, to, n, type, op, root, c, s});
}
FAKE_API ncclAllGather(const char* from, char* to, size_t n, int type, Comm* c, void* s) {
  FAKE_ENTER(ncclAllGather);
  return add("ncclAllGather", {Kind::AllGather, from, to, n, type, 0, 0, c, s});
}
FAKE_API ncclReduceScatter(const char* from, char* to, size_t n, int type, int op, Comm* c,
                           void* s) {
  FAKE_ENTER(ncclReduceScatter);
  return add("ncclReduceScatter", {Kind::ReduceScatter, from, to, n, type, op, 0, c, s});
}
FAKE_API ncclSend(const char* from, size_t n, int type, int peer, Comm* c, void* s) {
  FAKE_ENTER(ncclSend);
  return add("ncclSend", {Kind::Send, from, nullptr, n, type, 0, peer, c, s});
}
FAKE_API ncclRecv(char* to, size_t n, int type, int peer, Comm* c, void* s) {
  FAKE_ENTER(ncclRecv);
  return add("ncclRecv", {Kind::Receive, nullptr, to, n, type, 0, peer, c, s});
}
