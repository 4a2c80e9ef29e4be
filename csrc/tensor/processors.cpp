// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/processors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "tensor/pool.h"

namespace cograd {
namespace {

constexpr size_t kPath = 1024;

// A path below `root`, built without allocating; empty if it is too long.
class Path {
 public:
  explicit Path(std::string_view root) { add(root); }
  Path& add(std::string_view part) noexcept {
    if (size_ + part.size() >= kPath) {
      bad_ = true;
      return *this;
    }
    std::copy(part.begin(), part.end(), text_ + size_);
    size_ += part.size();
    text_[size_] = '\0';
    return *this;
  }
  Path& add(int number) noexcept {
    char digits[16];
    return add({digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%d", number))});
  }
  Path operator/(std::string_view part) const noexcept {
    Path longer = *this;
    longer.add("/").add(part);
    return longer;
  }
  // Removes the last part; returns false if none is left beyond `size` characters.
  bool pop(size_t size) noexcept {
    if (size_ <= size) return false;
    while (size_ > size && text_[size_ - 1] != '/') --size_;
    while (size_ > size && text_[size_ - 1] == '/') --size_;
    text_[size_] = '\0';
    return true;
  }
  size_t size() const noexcept { return size_; }
  const char* get() const noexcept { return bad_ ? "" : text_; }

 private:
  char text_[kPath] = {};
  size_t size_ = 0;
  bool bad_ = false;
};

// The beginning of a file, or nothing if it cannot be read.
class SmallFile {
 public:
  explicit SmallFile(const Path& path) noexcept {
    const int fd = open(path.get(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    while (size_ < sizeof text_ - 1) {
      const ssize_t n = read(fd, text_ + size_, sizeof text_ - 1 - size_);
      if (n <= 0) break;
      size_ += static_cast<size_t>(n);
    }
    close(fd);
  }
  const char* c_str() const noexcept { return text_; }
  std::string_view text() const noexcept { return {text_, size_}; }
  explicit operator bool() const noexcept { return size_ > 0; }

 private:
  char text_[4096] = {};
  size_t size_ = 0;
};

// Parses a list such as "0-3,8"; returns an empty set for anything else.
cpu_set_t parse_list(const char* text) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const char* p = text; *p >= '0' && *p <= '9';) {
    char* end = nullptr;
    const long first = std::strtol(p, &end, 10);
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &set);
    p = *end == ',' ? end + 1 : end;
  }
  return set;
}

// Counts the physical cores of the processors of `mask`: those with the same siblings are one.
int count_cores(std::string_view root, const cpu_set_t& mask) noexcept {
  cpu_set_t left = mask;
  int cores = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &left)) continue;
    ++cores;
    CPU_CLR(cpu, &left);
    Path topology(root);
    topology.add("/sys/devices/system/cpu/cpu").add(cpu).add("/topology");
    SmallFile list(topology / "core_cpus_list");
    if (!list) list = SmallFile(topology / "thread_siblings_list");
    const cpu_set_t siblings = parse_list(list.c_str());
    for (int other = cpu + 1; other < CPU_SETSIZE; ++other)
      if (CPU_ISSET(other, &siblings)) CPU_CLR(other, &left);
  }
  return cores;
}

bool lists(std::string_view controllers, std::string_view name) noexcept {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == name) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

// Calls f(directory) for the control groups of this process, the innermost first, until f returns
// true. In a container the path may be the host's; its outer directories are then missing.
template <class F>
void each_group(std::string_view root, std::string_view controller, const F& f) noexcept {
  const SmallFile groups(Path(root) / "proc/self/cgroup");
  std::string_view rest = groups.text();
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !lists(controllers, controller)) continue;
    const Path base = Path(root) / "sys/fs/cgroup";
    for (const std::string_view mount :
         {unified ? std::string_view("") : controllers, unified ? "unified" : controller}) {
      Path group = mount.empty() ? base : base / mount;
      const size_t top = group.size();
      group.add(line.substr(second + 1));
      do {
        if (f(group, unified)) return;
      } while (group.pop(top));
    }
  }
}

double read_quota(std::string_view root) noexcept {
  double least = 0;
  each_group(root, "cpu", [&](const Path& group, bool unified) {
    double quota = 0, period = 0;
    if (unified) {
      const SmallFile max(group / "cpu.max");
      char* end = nullptr;
      quota = std::strtod(max.c_str(), &end);  // 0 for "max"
      period = std::strtod(end, nullptr);
    } else {
      quota = std::strtod(SmallFile(group / "cpu.cfs_quota_us").c_str(), nullptr);
      period = std::strtod(SmallFile(group / "cpu.cfs_period_us").c_str(), nullptr);
    }
    if (quota > 0 && period > 0)
      least = least == 0 ? quota / period : std::min(least, quota / period);
    return false;
  });
  return least;
}

// The processors of this job's part of the machine, whichever of them this process is bound to.
cpu_set_t shared_processors(std::string_view root) noexcept {
  cpu_set_t found;
  CPU_ZERO(&found);
  each_group(root, "cpuset", [&](const Path& group, bool unified) {
    const char* name = unified ? "cpuset.cpus.effective" : "cpuset.effective_cpus";
    found = parse_list(SmallFile(group / name).c_str());
    return CPU_COUNT(&found) > 0;
  });
  if (CPU_COUNT(&found) == 0)
    found = parse_list(SmallFile(Path(root) / "sys/devices/system/cpu/online").c_str());
  return found;
}

// The positive number that the variable starts with, or 0.
int number_in(const char* variable) noexcept {
  const char* text = std::getenv(variable);
  if (text == nullptr) return 0;
  const long n = std::strtol(text, nullptr, 10);
  return n > 0 ? static_cast<int>(std::min<long>(n, kMaxThreads)) : 0;
}

// The number of tasks on this node from Slurm's list "4(x2),3", or 0.
int slurm_tasks() noexcept {
  const char* list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  const char* here = std::getenv("SLURM_NODEID");
  if (list == nullptr || here == nullptr) return 0;
  long node = std::strtol(here, nullptr, 10);
  for (const char* p = list; *p >= '0' && *p <= '9';) {
    char* end = nullptr;
    const long tasks = std::strtol(p, &end, 10);
    long nodes = 1;
    if (std::strncmp(end, "(x", 2) == 0) {
      nodes = std::strtol(end + 2, &end, 10);
      if (*end == ')') ++end;
    }
    if (node < nodes) return static_cast<int>(std::clamp<long>(tasks, 0, kMaxThreads));
    node -= nodes;
    p = *end == ',' ? end + 1 : end;
  }
  return 0;
}

void read_ranks(ProcessorLimits& limits) noexcept {
  // Open MPI; MPICH and Intel MPI; MVAPICH; programs started in torch's way.
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                               "MV2_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE"}) {
    limits.ranks = number_in(variable);
    limits.ranks_by = variable;
    if (limits.ranks > 0) return;
  }
  limits.ranks = slurm_tasks();
  limits.ranks_by = "SLURM_STEP_TASKS_PER_NODE";
}

}  // namespace

int ProcessorLimits::threads() const noexcept {
  if (set > 0) return std::min(set, kMaxThreads);
  double most = cores;
  if (ranks > 1 && shared_cores > 0) most = std::min(most, double(shared_cores) / ranks);
  if (quota > 0) most = std::min(most, quota / std::max(ranks, 1));
  return std::clamp(static_cast<int>(most), 1, kMaxThreads);
}

ProcessorLimits processor_limits(const char* root, const cpu_set_t& mask) noexcept {
  ProcessorLimits limits;
  limits.processors = CPU_COUNT(&mask);
  limits.cores = count_cores(root, mask);
  limits.quota = read_quota(root);
  read_ranks(limits);
  if (limits.ranks > 1) {
    cpu_set_t all = shared_processors(root);
    CPU_OR(&all, &all, &mask);
    limits.shared_cores = count_cores(root, all);
  }
  // MKL's variable precedes OpenMP's, as in torch.
  for (const char* variable : {"COGRAD_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"}) {
    limits.set = number_in(variable);
    limits.set_by = variable;
    if (limits.set > 0) break;
  }
  return limits;
}

const ProcessorLimits& processor_limits() noexcept {
  static const ProcessorLimits limits = [] {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
      CPU_ZERO(&mask);
      const int all = std::min<int>(std::max(1u, std::thread::hardware_concurrency()), CPU_SETSIZE);
      for (int cpu = 0; cpu < all; ++cpu) CPU_SET(cpu, &mask);
    }
    return processor_limits("", mask);
  }();
  return limits;
}

int usable_processors() noexcept {
  const ProcessorLimits& limits = processor_limits();
  const int allowed = limits.quota > 0 ? static_cast<int>(std::ceil(limits.quota)) : kMaxThreads;
  return std::max(1, std::min(limits.processors, allowed));
}

std::string describe(const ProcessorLimits& limits) {
  using detail::concat;
  if (limits.set > 0) return concat(limits.set_by, " is ", limits.set);
  std::string text = concat(limits.cores, limits.cores == 1 ? " core" : " cores");
  if (limits.processors != limits.cores)
    text += concat(" with ", limits.processors, " hardware threads");
  if (limits.ranks > 1)
    text += concat(", ", limits.shared_cores, " shared by ", limits.ranks, " ranks (",
                   limits.ranks_by, ")");
  if (limits.quota > 0) text += concat(", the control group allows ", limits.quota, " processors");
  return text;
}

}  // namespace cograd
