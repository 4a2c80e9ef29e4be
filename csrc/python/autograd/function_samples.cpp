// SPDX-License-Identifier: BSD-3-Clause
// Calls Python Functions with batched tensors: through their vmap rule, or sample by sample.
#include "python/autograd/function_samples.h"

#include "transforms/custom_samples.h"

namespace cograd::python {

namespace {

py::object base_class() { return py::module_::import("cograd.autograd.function").attr("Function"); }

py::object as_object(const Tensor& t) {
  return t.defined() ? py::reinterpret_steal<py::object>(wrap(t)) : py::none();
}

class PythonSamples final : public SampledCall {
 public:
  PythonSamples(py::handle cls, const py::tuple& args, const py::tuple& names)
      : cls_(cls), args_(args), names_(names) {
    for (const py::handle a : args) {
      const bool tensor = is_tensor(a.ptr());
      input_of_arg_.push_back(tensor ? static_cast<int>(inputs_.size()) : -1);
      if (tensor) inputs_.push_back(unwrap(a.ptr()));
    }
  }
  const std::vector<Tensor>& inputs() const noexcept { return inputs_; }
  std::string name() const override {
    const py::object op = cls_.attr("_op_name");
    if (!op.is_none()) return "op '" + py::cast<std::string>(op) + "'";
    return py::cast<std::string>(cls_.attr("__name__"));
  }
  std::string rule_to_write() const override {
    const py::object op = cls_.attr("_op_name");
    if (!op.is_none())
      return "    @cograd.library.register_vmap(\"" + py::cast<std::string>(op) +
             "\")\n"
             "    def rule(info, in_dims, *args):\n"
             "        return output, out_dims";
    return "    @staticmethod\n"
           "    def vmap(info, in_dims, *args):\n"
           "        return output, out_dims";
  }
  bool has_rule() const override { return !cls_.attr("vmap").is(base_class().attr("vmap")); }

  std::vector<Tensor> call_rule(const VmapLevel& level, std::span<const Tensor> inputs,
                                std::span<const SampleDim> dims,
                                std::vector<SampleDim>& out_dims) override {
    if (names_.size() > 0)
      throw py::type_error(name() + ".vmap does not support keyword-only arguments of forward: " +
                           py::cast<std::string>(py::str(names_)));
    py::tuple in_dims(args_.size());
    for (size_t i = 0; i < args_.size(); ++i) {
      const int input = input_of_arg_[i];
      const SampleDim d = input < 0 ? SampleDim() : dims[static_cast<size_t>(input)];
      in_dims[i] = d ? py::object(py::int_(*d)) : py::none();
    }
    constexpr const char* kNames[] = {"error", "different", "same"};
    const py::object info =
        py::module_::import("cograd.autograd._function_samples")
            .attr("VmapInfo")(level.size, kNames[static_cast<int>(level.randomness)]);
    const py::object result = rule_result(info, in_dims, replaced(inputs));
    COGRAD_CHECK(PyTuple_Check(result.ptr()) && PyTuple_GET_SIZE(result.ptr()) == 2, name(),
                 ": the vmap rule must return (output, out_dims), a tuple of two; got ",
                 Py_TYPE(result.ptr())->tp_name);
    const auto pair = py::reinterpret_borrow<py::tuple>(result);
    const py::object outputs = pair[0], where = pair[1];
    first_ = settled(outputs);
    std::vector<Tensor> out = tensors_of(first_);
    if (const py::object dims_given = settled(where); PyTuple_Check(dims_given.ptr())) {
      for (size_t i = 0; i < count(dims_given); ++i)
        out_dims.push_back(dim_of(item(dims_given, i)));
    } else {
      out_dims.assign(out.size(), dim_of(where));
    }
    return out;
  }

  std::vector<Tensor> call(std::span<const Tensor> inputs) override {
    const py::tuple values = replaced(inputs);  // values of keywords come last, as in a vectorcall
    if (!apply_) apply_ = cls_.attr("apply");
    const auto result = py::reinterpret_steal<py::object>(PyObject_Vectorcall(
        apply_.ptr(), PySequence_Fast_ITEMS(values.ptr()), values.size() - names_.size(),
        names_.size() > 0 ? names_.ptr() : nullptr));
    if (!result) throw py::error_already_set();
    const py::object parts = settled(result);
    if (!first_) first_ = parts;
    check_same(parts);
    return tensors_of(parts);
  }

  // Returns the result's structure with these tensors in it.
  py::object result(const std::vector<Tensor>& outputs) const {
    if (!is_sequence(first_)) return outputs[0].defined() ? as_object(outputs[0]) : first_;
    py::tuple out(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      out[i] = outputs[i].defined() ? as_object(outputs[i]) : item(first_, i);
    return out;
  }

 private:
  // Marks an error raised inside the rule as such, so that a Jacobian can fall back to calls
  // without it.
  py::object rule_result(const py::object& info, const py::tuple& dims, const py::tuple& args) {
    try {
      return cls_.attr("vmap")(info, dims, *args);
    } catch (py::error_already_set& error) {
      if (error.matches(PyExc_RuntimeError)) error.value().attr("_in_vmap_rule") = true;
      throw;
    }
  }
  // Copies a list that the user's code returned into a tuple, as the code may change the list
  // later.
  static py::object settled(const py::object& o) {
    if (!PyList_Check(o.ptr())) return o;
    PyObject* items = PyList_AsTuple(o.ptr());
    if (items == nullptr) throw_python_error();
    return py::reinterpret_steal<py::object>(items);
  }
  static bool is_sequence(const py::object& o) { return PyTuple_Check(o.ptr()); }
  static py::object item(const py::object& o, size_t i) {
    if (!is_sequence(o)) return o;
    return py::reinterpret_borrow<py::object>(
        PyTuple_GET_ITEM(o.ptr(), static_cast<Py_ssize_t>(i)));
  }
  static size_t count(const py::object& o) {
    return is_sequence(o) ? static_cast<size_t>(PyTuple_GET_SIZE(o.ptr())) : 1;
  }
  static std::vector<Tensor> tensors_of(const py::object& o) {
    std::vector<Tensor> out;
    for (size_t i = 0; i < count(o); ++i) {
      const py::object one = item(o, i);
      out.push_back(is_tensor(one.ptr()) ? unwrap(one.ptr()) : Tensor());
    }
    return out;
  }
  SampleDim dim_of(py::handle d) const {
    if (d.is_none()) return {};
    COGRAD_CHECK_TYPE(PyLong_Check(d.ptr()), name(), ": the vmap rule returned an out_dim of type ",
                      Py_TYPE(d.ptr())->tp_name, ", expected int or None");
    return py::cast<int64_t>(d);
  }
  // Raises if a non-tensor result differs from sample to sample.
  void check_same(const py::object& result) const {
    for (size_t i = 0; i < count(result) && i < count(first_); ++i) {
      const py::object a = item(first_, i), b = item(result, i);
      if (is_tensor(a.ptr()) || a.is(b)) continue;
      COGRAD_CHECK(!is_tensor(b.ptr()) && a.equal(b), "vmap: ", name(), ".forward returned a ",
                   Py_TYPE(a.ptr())->tp_name,
                   " that differs from sample to sample; return a Tensor");
    }
  }
  py::tuple replaced(std::span<const Tensor> inputs) const {
    py::tuple out(args_.size());
    for (size_t i = 0; i < args_.size(); ++i) {
      const int input = input_of_arg_[i];
      py::object value =
          input < 0 ? py::object(args_[i]) : as_object(inputs[static_cast<size_t>(input)]);
      PyTuple_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), value.release().ptr());
    }
    return out;
  }

  py::handle cls_;
  const py::tuple& args_;
  const py::tuple& names_;
  std::vector<int> input_of_arg_;
  std::vector<Tensor> inputs_;
  py::object first_;
  py::object apply_;
};

}  // namespace

bool generates_vmap_rule(py::handle cls) {
  if (!py::cast<bool>(py::bool_(cls.attr("generate_vmap_rule")))) return false;
  COGRAD_CHECK(cls.attr("vmap").is(base_class().attr("vmap")), "You tried to vmap over ",
               py::cast<std::string>(cls.attr("__name__")),
               ", but it has both generate_vmap_rule=True and an overridden vmap staticmethod. "
               "Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
               "avoid ambiguity.");
  return true;
}

PyObject* apply_samples(py::handle cls, const py::tuple& args, const py::tuple& names) {
  COGRAD_CHECK_KIND(NotImplemented, py::cast<std::string>(cls.attr("_style")) != "instance",
                    "vmap: ", py::cast<std::string>(cls.attr("__name__")),
                    ".forward is not a staticmethod; vmap supports static forwards only");
  PythonSamples call(cls, args, names);
  return call.result(call_samples(call, call.inputs())).release().ptr();
}

}  // namespace cograd::python
