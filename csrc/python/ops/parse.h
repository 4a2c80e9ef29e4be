// SPDX-License-Identifier: BSD-3-Clause
// Parses the Python arguments of an op's call into boxed values.
#pragma once
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "api/registration.h"
#include "python/runtime/held.h"
#include "python/tensor/tensor.h"

namespace cograd::python {

// Holds the parsed values, and the lists that they point to while the op runs.
class Parsed {
 public:
  bool pin = false;  // the result goes to pinned memory
  static constexpr size_t kMax = 24;
  // Constructs only the values that a record needs: all 24 would cost more than a small op.
  void begin(size_t n) {
    for (size_t i = 0; i < n; ++i) new (values + i) Value;
  }
  Value* const values = reinterpret_cast<Value*>(bytes_);
  PyObject* out = nullptr;

  int64_t* ints(size_t n) {
    if (used_ + n <= kInts) {
      used_ += n;
      return ints_ + used_ - n;
    }
    return lists().ints.emplace_back(n).data();
  }
  std::vector<Tensor>& tensors() { return lists().tensors.emplace_back(); }
  Tensor& keep(Tensor t) { return lists().tensors.emplace_back(1, std::move(t)).front(); }
  std::vector<double>& doubles() { return lists().doubles.emplace_back(); }
  std::vector<uint8_t>& bools() { return lists().bools.emplace_back(); }
  std::vector<cograd_string>& strings() { return lists().strings.emplace_back(); }
  // Keeps the items of a list alive, because their text is borrowed.
  void hold(PyObject* list) { lists().held.push_back(held_sequence(list)); }

 private:
  static_assert(std::is_trivially_destructible_v<Value>);
  alignas(Value) unsigned char bytes_[kMax * sizeof(Value)];
  struct Lists {  // lists of vectors: the vectors never move, and empty lists cost nothing
    std::list<std::vector<int64_t>> ints;
    std::list<std::vector<Tensor>> tensors;
    std::list<std::vector<double>> doubles;
    std::list<std::vector<uint8_t>> bools;
    std::list<std::vector<cograd_string>> strings;
    std::vector<py::object> held;
  };
  Lists& lists() {
    if (lists_ == nullptr) lists_ = std::make_unique<Lists>();
    return *lists_;
  }
  std::unique_ptr<Lists> lists_;
  static constexpr size_t kInts = 16;
  int64_t ints_[kInts];
  size_t used_ = 0;
};

inline bool is_list_or_tuple(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }

bool parse_tensors(PyObject* const* items, size_t n, Parsed& p, Value& v);
// Fills `p` with the arguments of a call of `r`: n positional ones, then those that `kwnames`
// names, which may be null. Returns false if they do not fit the parameters; `why`, if it is not
// null, then says why.
bool parse(const OpRecord& r, PyObject* const* args, size_t n, PyObject* kwnames, Parsed& p,
           std::string* why);

}  // namespace cograd::python
