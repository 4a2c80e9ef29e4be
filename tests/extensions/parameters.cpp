// SPDX-License-Identifier: BSD-3-Clause
// Every type a registered op may take or return, and how names, defaults and schemas are given.
#include <cograd/extension.h>

#include <sstream>

using namespace cograd;

namespace {

template <class T>
std::string listed(const T& values) {
  std::ostringstream s;
  for (const auto& v : values) s << v << ';';
  return s.str();
}
std::string text_of(Scalar s) {
  if (s.is_bool()) return s.to_bool() ? "bool True" : "bool False";
  return s.is_float() ? "float " + std::to_string(s.to_double())
                      : "int " + std::to_string(s.to_int());
}

int64_t free_function(int64_t a, int64_t b) noexcept { return a - b; }
Tensor scale_(Tensor& x, double a) {
  double* p = x.data_ptr<double>();
  for (int64_t i = 0; i < x.numel(); ++i) p[i] *= a;
  return x;
}
void fill_(Tensor x, double a) {
  double* p = x.data_ptr<double>();
  for (int64_t i = 0; i < x.numel(); ++i) p[i] = a;
}
Tensor count(const Tensor& x) {
  Tensor n = empty({}, x.options());
  *n.data_ptr<double>() = static_cast<double>(x.numel());
  return n;
}

}  // namespace

COGRAD_LIBRARY(t_params, m) {
  m.def("tensor", [](const Tensor& x) { return x.summary(); }, "x");
  m.def("tensor_value", [](Tensor x) { return x.numel(); }, "x");
  m.def("maybe_tensor", [](const optional<Tensor>& x) { return x ? x->numel() : -1; }, "x=None");
  m.def("undefined", [](const Tensor& x) { return x.defined(); }, "x=None");
  m.def("tensors", [](TensorList l) { return l.size(); }, "l");
  m.def("tensor_vector", [](const std::vector<Tensor>& l) { return l.size(); }, "l");
  m.def(
      "maybe_tensors", [](optional<TensorList> l) { return l ? int64_t(l->size()) : -1; },
      "l=None");
  m.def("boolean", [](bool b) { return b ? 10 : 20; }, "b");
  m.def("int64", [](int64_t i) { return i; }, "i");
  m.def("int32", [](int i) { return i; }, "i");
  m.def("uint8", [](uint8_t i) { return int(i); }, "i");
  m.def("float64", [](double d) { return d; }, "d");
  m.def("float32", [](float f) { return f; }, "f");
  m.def("scalar", [](Scalar s) { return text_of(s); }, "s");
  m.def("string", [](std::string s) { return s + "!"; }, "s");
  m.def("string_view", [](std::string_view s) { return int64_t(s.size()); }, "s");
  m.def("dtype", [](DType t) { return std::string(dtype_name(t)); }, "t");
  m.def(
      "maybe_dtype", [](optional<DType> t) { return t ? std::string(dtype_name(*t)) : "none"; },
      "t=None");
  m.def("device", [](Device d) { return d.is_cpu(); }, "d");
  m.def("ints", [](IntArrayRef l) { return listed(l); }, "l");
  m.def("ints_vector", [](std::vector<int64_t> l) { return listed(l); }, "l");
  m.def("maybe_ints", [](optional<IntArrayRef> l) { return l ? listed(*l) : "none"; }, "l=None");
  m.def("doubles", [](ArrayRef<double> l) { return listed(l); }, "l");
  m.def("doubles_vector", [](const std::vector<double>& l) { return listed(l); }, "l");
  m.def("bools", [](std::vector<bool> l) { return listed(l); }, "l");
  m.def("strings", [](std::vector<std::string> l) { return listed(l); }, "l");
  m.def(
      "maybe",
      [](optional<int64_t> i, optional<double> d, optional<bool> b, optional<std::string> s) {
        return std::to_string(i.value_or(-1)) + " " + std::to_string(d.value_or(-1.5)) + " " +
               (b ? (*b ? "T" : "F") : "-") + " " + s.value_or("none");
      },
      "i=None, d=None, b=None, s=None");
  m.def(
      "defaults",
      [](double a, int64_t b, bool c, std::string s, std::vector<int64_t> l, DType t) {
        return std::to_string(a) + " " + std::to_string(b) + (c ? " T " : " F ") + s + " " +
               listed(l) + dtype_name(t);
      },
      "a=1.5, b=-2, c=True, s='text', l=[1, 2], t=float32");
  m.def(
      "keywords", [](int64_t a, int64_t b, int64_t c) { return a * 100 + b * 10 + c; },
      "a, *, b, c=3", "Digits of a number.");
  m.def("unnamed", [](int64_t a, int64_t b) { return a + b; });
  m.def("pointer", &free_function, "a, b");
  m.def("captures", [n = int64_t{0}]() mutable { return ++n; });

  m.def("nothing", [] {});
  m.def("result_none", [] { return optional<Tensor>(); });
  m.def("result_bool", [] { return true; });
  m.def(
      "result_tuple", [](const Tensor& x) { return std::make_tuple(x + 1, int64_t{7}, 2.5); }, "x");
  m.def("result_tensors", [](const Tensor& x) { return std::make_tuple(x + 1, x * 2); }, "x");
  m.def("result_one", [](const Tensor& x) { return std::make_tuple(x + 1); }, "x");
  m.def("result_pair", [] { return std::make_pair(std::string("a"), false); });
  m.def(
      "result_list", [](const Tensor& x, int64_t n) { return std::vector<Tensor>(size_t(n), x); },
      "x, n");
  m.def(
      "result_nested",
      [](const Tensor& x) {
        return std::make_tuple(std::vector<Tensor>{x, x}, std::vector<int64_t>{1, 2},
                               std::vector<double>{0.5}, std::vector<bool>{true, false},
                               std::vector<std::string>{"p", "q"});
      },
      "x");
  m.def(
      "result_scalar",
      [](int64_t i) { return i == 0   ? Scalar(true)
                             : i == 1 ? Scalar(2)
                                      : Scalar(2.5); }, "i");

  m.def("scale_", &scale_, "x, a");
  m.def("fill_", &fill_, "(Tensor(a!) x, float a=0.5) -> ()").non_differentiable();
  m.def("set_", &fill_, "(Tensor(a!) x, float a=0.5) -> ()");
  m.def("count", &count, "x").non_differentiable();
  m.def("opaque", &count, "x");
  m.def(
      "opaque_list", [](const Tensor& x) { return std::vector<Tensor>{count(x), count(x)}; }, "x");
}
// Further parts of a namespace, twice in one file.
COGRAD_LIBRARY_FRAGMENT(t_params, m) {
  m.def("more", [] { return 1; });
}
COGRAD_LIBRARY_FRAGMENT(t_params, m) {
  m.def("still_more", [] { return 2; }).doc("Two.");
}
