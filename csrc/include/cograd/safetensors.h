// SPDX-License-Identifier: BSD-3-Clause
// Reads safetensors files, such as those of cograd.save: tensors by name. Damaged files raise
// ValueError, files that cannot be read RuntimeError; no offset of a file is used unchecked.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cograd/detail/json.h"
#include "cograd/tensor.h"
#include "cograd/tensor_inl.h"

namespace cograd {
inline namespace abi1 {

// An open safetensors file. The constructor reads and checks the header; `get` reads the elements
// of one tensor, also from several threads at a time.
class SafeTensors {
 public:
  explicit SafeTensors(std::string path) : path_(std::move(path)) { read_header(); }
  SafeTensors(SafeTensors&& o) noexcept
      : path_(std::move(o.path_)),
        fd_(std::exchange(o.fd_, -1)),
        data_begin_(o.data_begin_),
        entries_(std::move(o.entries_)),
        metadata_(std::move(o.metadata_)) {}
  SafeTensors(const SafeTensors&) = delete;
  SafeTensors& operator=(const SafeTensors&) = delete;
  ~SafeTensors() {
    if (fd_ >= 0) ::close(fd_);
  }

  const std::string& path() const noexcept { return path_; }
  // Returns the number of tensors.
  size_t size() const noexcept { return entries_.size(); }
  bool contains(const std::string& name) const { return entries_.count(name) != 0; }
  // Returns the names of the tensors in alphabetical order.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& e : entries_) out.push_back(e.first);
    return out;
  }
  // Returns the texts that the file has besides tensors.
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  // Returns the sizes of a tensor without reading it; raises IndexError if there is no such name.
  const std::vector<int64_t>& sizes(const std::string& name) const { return entry(name).sizes; }
  // Returns the dtype of a tensor without reading it; raises NotImplementedError if cograd lacks
  // it.
  DType dtype(const std::string& name) const { return dtype_of_entry(name, entry(name)); }
  // Reads a tensor into new memory; raises IndexError if there is no such name.
  Tensor get(const std::string& name) const {
    const Entry& e = entry(name);
    Tensor t = empty(e.sizes, dtype_of_entry(name, e));
    auto* bytes = static_cast<unsigned char*>(t.data_ptr());
    read_at(bytes, e.end - e.begin, data_begin_ + e.begin);
    if (t.dtype() == DType::Bool)  // another value of a bool would be undefined behaviour
      for (uint64_t i = 0; i < e.end - e.begin; ++i)
        check(bytes[i] < 2, "the bool tensor '", name, "' has an element ", bytes[i]);
    return t;
  }
  Tensor operator[](const std::string& name) const { return get(name); }
  // Reads all tensors.
  std::map<std::string, Tensor> all() const {
    std::map<std::string, Tensor> out;
    for (const auto& e : entries_) out.emplace(e.first, get(e.first));
    return out;
  }

 private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> sizes;
    uint64_t begin = 0, end = 0;
  };
  struct Kind {
    const char* name;
    DType dtype;
  };
  static const Kind* kind_of(const std::string& name) {
    static constexpr Kind kKinds[] = {
        {"BOOL", DType::Bool},   {"U8", DType::UInt8},      {"I8", DType::Int8},
        {"I16", DType::Int16},   {"U16", DType::UInt16},    {"I32", DType::Int32},
        {"U32", DType::UInt32},  {"I64", DType::Int64},     {"U64", DType::UInt64},
        {"F16", DType::Float16}, {"BF16", DType::BFloat16}, {"F32", DType::Float32},
        {"F64", DType::Float64}, {"C64", DType::Complex64},
    };
    for (const Kind& k : kKinds)
      if (name == k.name) return &k;
    return nullptr;
  }
  static constexpr uint64_t kMaxHeader = 100000000;  // the limit of the format

  template <class... Parts>
  void check(bool ok, const Parts&... parts) const {
    if (__builtin_expect(!ok, 0))
      cograd::detail::fail(ErrorKind::Value, "SafeTensors: ", path_, ": ", parts...);
  }
  [[noreturn]] void fail_to(const char* what) const {
    cograd::detail::fail(ErrorKind::Runtime, "SafeTensors: cannot ", what, " ", path_, ": ",
                         ::strerror(errno));
  }
  const Entry& entry(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) refuse(name);
    return found->second;
  }
  [[noreturn, gnu::cold]] void refuse(const std::string& name) const {
    std::string known;
    size_t n = 0;
    for (const auto& e : entries_) {
      if (++n > 10) break;
      known += (known.empty() ? "" : ", ") + e.first;
    }
    cograd::detail::fail(ErrorKind::Index, "SafeTensors: ", path_, " has no tensor '", name,
                         "'; it has ", known.empty() ? "none" : known.c_str(),
                         n > 10 ? ", ..." : "");
  }
  DType dtype_of_entry(const std::string& name, const Entry& e) const {
    const Kind* kind = kind_of(e.dtype);
    if (kind == nullptr)
      cograd::detail::fail(ErrorKind::NotImplemented, "SafeTensors: ", path_, ": tensor '", name,
                           "' has the dtype ", e.dtype, ", which cograd does not have");
    return kind->dtype;
  }
  void read_at(void* to, uint64_t count, uint64_t at) const {
    auto* p = static_cast<char*>(to);
    while (count > 0) {
      const ssize_t got =
          ::pread(fd_, p, std::min<uint64_t>(count, 1u << 30), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_to("read");
      check(got > 0, "it ends at byte ", at, ", ", count, " bytes too early");
      p += got;
      at += static_cast<uint64_t>(got);
      count -= static_cast<uint64_t>(got);
    }
  }
  void read_header() {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) fail_to("open");
    try {
      struct stat status;
      if (::fstat(fd_, &status) != 0) fail_to("read");
      check(S_ISREG(status.st_mode), "it is not a file");
      const auto total = static_cast<uint64_t>(status.st_size);
      check(total >= 8, "it has ", total, " bytes; a safetensors file begins with 8 bytes");
      unsigned char prefix[8];
      read_at(prefix, 8, 0);
      uint64_t length = 0;
      for (int i = 7; i >= 0; --i) length = length << 8 | prefix[i];
      check(length <= kMaxHeader, "a header of ", length,
            " bytes is more than the format allows; it is no safetensors file");
      check(length <= total - 8, "the header should have ", length, " bytes, but only ", total - 8,
            " follow; the file is truncated, or no safetensors file");
      std::string text(static_cast<size_t>(length), '\0');
      read_at(&text[0], length, 8);
      data_begin_ = 8 + length;
      parse(text);
      check_layout(total - data_begin_);
    } catch (...) {  // the destructor does not run
      ::close(fd_);
      throw;
    }
  }
  void parse(const std::string& text) {
    const std::string where = "SafeTensors: " + path_ + ": header";
    ext::JsonReader json(text, where.c_str());
    json.object([&](const std::string& key) {
      if (key == "__metadata__") {
        json.object([&](const std::string& k) { metadata_[k] = json.string(); });
        return;
      }
      check(entries_.count(key) == 0, "the name '", key, "' is there twice");
      Entry& e = entries_[key];
      int seen = 0;
      json.object([&](const std::string& field) {
        if (field == "dtype") {
          e.dtype = json.string();
          seen |= 1;
        } else if (field == "shape") {
          e.sizes.clear();
          json.array([&] { e.sizes.push_back(static_cast<int64_t>(json.natural())); });
          seen |= 2;
        } else if (field == "data_offsets") {
          std::vector<uint64_t> ends;
          json.array([&] { ends.push_back(json.natural()); });
          check(ends.size() == 2, "tensor '", key, "' has ", ends.size(),
                " data_offsets, expected 2");
          e.begin = ends[0];
          e.end = ends[1];
          seen |= 4;
        } else {
          json.skip();
        }
      });
      check(seen == 7, "tensor '", key, "' lacks dtype, shape or data_offsets");
    });
    json.end();
  }
  // Checks that tensors have as many bytes as their elements, and fill the file one after another.
  void check_layout(uint64_t bytes) const {
    std::vector<std::pair<std::pair<uint64_t, uint64_t>, const std::string*>> spans;
    for (const auto& item : entries_) {
      const Entry& e = item.second;
      check(e.begin <= e.end && e.end <= bytes, "tensor '", item.first, "' is at bytes ", e.begin,
            " to ", e.end, " of the data, which has ", bytes,
            e.begin <= e.end ? "; the file is truncated" : "");
      check(e.sizes.size() <= 64, "tensor '", item.first, "' has ", e.sizes.size(), " dims");
      check_bytes(item.first, e);
      spans.push_back({{e.begin, e.end}, &item.first});
    }
    std::sort(spans.begin(), spans.end());
    uint64_t at = 0;
    for (const auto& span : spans) {
      check(span.first.first == at, "tensor '", *span.second, "' begins at byte ", span.first.first,
            " of the data, where ", at, " was expected: tensors overlap, or bytes belong to none");
      at = span.first.second;
    }
    check(at == bytes, "the data has ", bytes, " bytes, but the tensors only ", at);
  }
  void check_bytes(const std::string& name, const Entry& e) const {
    const Kind* kind = kind_of(e.dtype);
    if (kind == nullptr) return;  // its width is unknown; `get` refuses it
    uint64_t expected = static_cast<uint64_t>(dtype_size(kind->dtype));
    bool fits = true, is_empty = false;
    for (const int64_t n : e.sizes) {
      is_empty |= n == 0;
      fits = fits && !__builtin_mul_overflow(expected, static_cast<uint64_t>(n), &expected);
    }
    if (is_empty) expected = 0;
    check(is_empty || (fits && expected == e.end - e.begin), "tensor '", name, "', ", e.dtype,
          IntArrayRef(e.sizes), ", has ", e.end - e.begin, " bytes in the file");
    check(!is_empty || e.begin == e.end, "tensor '", name, "' has no elements, but bytes");
  }

  std::string path_;
  int fd_ = -1;
  uint64_t data_begin_ = 0;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Reads all tensors of a safetensors file by name.
inline std::map<std::string, Tensor> load_safetensors(const std::string& path) {
  return SafeTensors(path).all();
}

}  // namespace abi1
}  // namespace cograd
