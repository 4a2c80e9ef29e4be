// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/jit/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "cuda/jit/folders.h"

namespace cograd::cuda {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "cograd kernel 1\n", kEnd = ".cubin";
constexpr size_t kDigits = 32;

uint64_t rotated(uint64_t v, int by) { return v << by | v >> (64 - by); }
uint64_t mixed(uint64_t v) {
  v = (v ^ v >> 33) * 0xff51afd7ed558ccdu;
  v = (v ^ v >> 33) * 0xc4ceb9fe1a85ec53u;
  return v ^ v >> 33;
}

// Two lanes of 64 bits, each multiplied and rotated by eight bytes at a time.
struct Hash {
  uint64_t a = 0x9e3779b97f4a7c15u, b = 0xd1b54a32d192ed03u;
  void word(uint64_t v) {
    a = rotated(a ^ v * 0x87c37b91114253d5u, 31) * 5 + 0x52dce729u;
    b = rotated(b ^ v * 0x4cf5ad432745937fu, 33) * 5 + a;
  }
  void bytes(std::string_view text) {
    word(text.size());
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t v = 0;
      std::memcpy(&v, text.data() + i, std::min<size_t>(8, text.size() - i));
      word(v);
    }
  }
};

std::string environment(const char* name) {
  const char* v = std::getenv(name);
  return v == nullptr ? "" : v;
}

std::string path_of(const std::string& key) {
  const std::string folder = cache_folder();
  return folder.empty() ? "" : folder + "/" + key + std::string(kEnd);
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

struct Kept {
  fs::file_time_type used;
  uintmax_t size;
  fs::path path;
};

// Removes files down to three quarters of the limit. Another process may do the same: what is gone
// already is no error.
void limit_folder(const std::string& folder, uintmax_t limit) {
  std::error_code e;
  std::vector<Kept> files;
  uintmax_t total = 0;
  for (fs::directory_iterator i(folder, e), end; !e && i != end; i.increment(e)) {
    std::error_code gone;
    const uintmax_t size = i->file_size(gone);
    const auto used = i->last_write_time(gone);
    if (gone || i->path().filename().string().find(kEnd) == std::string::npos) continue;
    total += size;
    files.push_back({used, size, i->path()});
  }
  if (total <= limit) return;
  std::sort(files.begin(), files.end(),
            [](const Kept& x, const Kept& y) { return x.used < y.used; });
  for (const Kept& f : files) {
    if (total <= limit / 4 * 3) return;
    fs::remove(f.path, e);
    total -= f.size;
  }
}

}  // namespace

std::string digest(std::initializer_list<std::string_view> parts) {
  Hash h;
  for (std::string_view p : parts) h.bytes(p);
  const uint64_t words[] = {mixed(h.a + h.b), mixed(h.b + rotated(h.a, 29))};
  std::string hex;
  for (uint64_t w : words)
    for (int i = 60; i >= 0; i -= 4) hex += "0123456789abcdef"[w >> i & 15];
  return hex;
}

std::string cache_folder() {
  if (const char* own = std::getenv("COGRAD_KERNEL_CACHE"); own != nullptr) return own;
  const std::string cache = environment("XDG_CACHE_HOME"), home = environment("HOME");
  if (!cache.empty() && cache[0] == '/') return cache + "/cograd/kernels";
  return home.empty() ? "" : home + "/.cache/cograd/kernels";
}

std::optional<std::string> cached_code(const std::string& key) {
  const std::string path = path_of(key);
  if (path.empty()) return std::nullopt;
  std::optional<std::string> file = read_file(path);
  const size_t head = kMagic.size() + kDigits;
  if (!file || file->size() <= head || file->compare(0, kMagic.size(), kMagic) != 0)
    return std::nullopt;
  std::string code = file->substr(head);
  if (file->compare(kMagic.size(), kDigits, digest({code})) != 0) return std::nullopt;
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // marks the file as used
  return code;
}

bool cache_code(const std::string& key, const std::string& code, size_t limit) {
  static std::atomic<unsigned> count{0};
  const std::string path = path_of(key), folder = cache_folder();
  if (path.empty() || code.size() > limit) return false;
  std::error_code e;
  fs::create_directories(folder, e);
  const unsigned number = count.fetch_add(1);
  const std::string draft = path + "." + std::to_string(getpid()) + "." + std::to_string(number);
  const int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool written =
      write_all(fd, kMagic) && write_all(fd, digest({code})) && write_all(fd, code);
  if (close(fd) != 0 || !written || rename(draft.c_str(), path.c_str()) != 0) {
    unlink(draft.c_str());
    return false;
  }
  if (number % 16 == 0) limit_folder(folder, limit);
  return true;
}

}  // namespace cograd::cuda
