// SPDX-License-Identifier: BSD-3-Clause
// Makes op objects: vectorcall callables of the records behind one Python name.
#include "python/ops/call.h"

#include <structmember.h>

#include <map>
#include <string>

#include "api/registration.h"
#include "ops/declare/out.h"
#include "python/exchange/interop.h"
#include "python/ops/overrides.h"
#include "python/ops/parse.h"
#include "python/ops/signatures.h"

namespace cograd::python {

namespace {

// All overloads behind one Python name.
struct OpGroup {
  enum class Form : uint8_t { Function, Method };
  std::string name;
  Form form;
  bool inplace = false;
  std::vector<const OpRecord*> records;
};

struct PyOp {
  PyObject_HEAD vectorcallfunc vectorcall;
  const OpGroup* group;
};
PyTypeObject* function_type = nullptr;  // plain callable
PyTypeObject* method_type = nullptr;    // binds like a method

std::string signature_text(const OpGroup& g, const OpRecord& r) {
  return g.name + plain_signature({&r}, g.inplace);
}

[[gnu::cold]] PyObject* fail_parse(const OpGroup& g, PyObject* const* args, size_t n,
                                   PyObject* kwnames) {
  const size_t named = kwnames == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(kwnames));
  refuse_torch(g.name.c_str(), args, n + named);
  std::string text = g.name + "(): ";
  if (g.records.size() == 1) {
    Parsed p;
    std::string why;
    parse(*g.records[0], args, n, kwnames, p, &why);
    text += why + "; expected " + signature_text(g, *g.records[0]);
  } else {
    text += "received an invalid combination of arguments - got (";
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) text += ", ";
      text += Py_TYPE(args[i])->tp_name;
    }
    if (kwnames != nullptr)
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
        const char* key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k));
        text += std::string(n + static_cast<size_t>(k) > 0 ? ", " : "") + (key ? key : "?") + "=" +
                Py_TYPE(args[n + static_cast<size_t>(k)])->tp_name;
      }
    text += "), but expected one of:";
    for (const OpRecord* r : g.records) text += "\n * " + signature_text(g, *r);
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  return nullptr;
}

// Runs an op that may have several results with out=, a tensor or a sequence of tensors. Returns
// that tensor, or the tensors as a named tuple like the op does.
PyObject* run_outs(const OpRecord& r, Parsed& p) {
  if (is_tensor(p.out)) {
    const ArgumentsInUse use(&r, p.values, {&unwrap(p.out), 1});
    call_into(r, {&unwrap(p.out), 1}, p.values);
    Py_INCREF(p.out);
    return p.out;
  }
  Value list;
  COGRAD_CHECK_TYPE(parse_tensors(PySequence_Fast_ITEMS(p.out),
                                  static_cast<size_t>(PySequence_Fast_GET_SIZE(p.out)), p, list),
                    r.spec.name, "(): out= must be a tuple of tensors");
  const TensorList outs = list.tensors();
  const ArgumentsInUse use(&r, p.values, outs);
  call_into(r, outs, p.values);
  Result result;
  result.kind = Result::Kind::Tuple;
  result.tensors.assign(outs.begin(), outs.end());
  return wrap_result(&r, result);
}

PyObject* run(const OpGroup& g, const OpRecord& r, PyObject* const* args, Parsed& p) {
  if (g.inplace) {
    const Value& first = p.values[0];
    COGRAD_CHECK_TYPE(first.kind == COGRAD_TENSOR, g.name, "(): argument '", r.args[0].name,
                      "' (position 1) must be Tensor, not ", Py_TYPE(args[0])->tp_name);
    const Tensor self = ArgTraits<Tensor>::get(first);
    inplace_record(&r, self, p.values);
    PyObject* object = wrap(self);
    if (requires_grad(self)) ensure_tracked(object);
    return object;
  }
  if (p.out != nullptr && !r.has_out) return run_outs(r, p);
  if (p.out != nullptr) {
    const Tensor& out = unwrap(p.out);
    const ArgumentsInUse use(&r, p.values, {&out, 1});
    r.call_out(out, p.values);
    Py_INCREF(p.out);
    return p.out;
  }
  Result result;
  call_record(&r, p.values, result);
  if (result.kind == Result::Kind::Tensor) [[likely]]
    return wrap(std::move(result.tensor));
  return wrap_result(&r, result);
}

[[gnu::cold]] PyObject* pinned(const OpGroup& g, PyObject* result) {
  const py::object made = py::reinterpret_steal<py::object>(result);
  const Tensor& t = unwrap(made.ptr());
  Tensor copy = pinned_copy(t, g.name.c_str());
  if (requires_grad(t)) set_requires_grad(copy, true);
  return wrap(std::move(copy));
}

PyObject* op_vectorcall(PyObject* callable, PyObject* const* args, size_t nargsf,
                        PyObject* kwnames);

// Handles x.add_(2, y), torch's form before alpha= and value=; returns null for any other call.
[[gnu::cold]] PyObject* legacy_scalar_first(PyObject* callable, std::string_view name,
                                            PyObject* const* args, size_t n, PyObject* kwnames) {
  if (name.ends_with('_')) name.remove_suffix(1);
  const bool sum = name == "add" || name == "sub";
  if (!sum && name != "addcmul" && name != "addcdiv") return nullptr;
  if (n != (sum ? 3 : 4) || (kwnames != nullptr && PyTuple_GET_SIZE(kwnames) > 0)) return nullptr;
  const bool number = PyFloat_Check(args[1]) || PyLong_Check(args[1]);
  if (!number || !is_tensor(args[0]) || !is_tensor(args[2])) return nullptr;
  const py::tuple names = py::make_tuple(sum ? "alpha" : "value");
  if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                       "passing the scalar before the tensors is deprecated; pass it as %S=",
                       names[0].ptr()) < 0)
    throw_python_error();
  PyObject* turned[4] = {args[0], args[2], sum ? args[1] : args[3], args[1]};
  PyObject* result = op_vectorcall(callable, turned, n - 1, names.ptr());
  if (result == nullptr) throw_python_error();
  return result;
}

PyObject* op_vectorcall(PyObject* callable, PyObject* const* args, size_t nargsf,
                        PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const OpGroup& g = *reinterpret_cast<PyOp*>(callable)->group;
    const auto n = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
    PyObject* other = nullptr;
    if (overrides_possible && overridden(callable, args, n, kwnames, &other)) [[unlikely]]
      return other;
    for (const OpRecord* r : g.records) {
      Parsed p;
      if (!parse(*r, args, n, kwnames, p, nullptr)) continue;
      PyObject* made = run(g, *r, args, p);
      return or_stopped(p.pin ? pinned(g, made) : made);
    }
    if (overridden(callable, args, n, kwnames, &other)) return other;
    if (PyObject* result = legacy_scalar_first(callable, g.name, args, n, kwnames)) return result;
    return fail_parse(g, args, n, kwnames);
  });
}

// Returns the function itself, which does not bind in a class. It has __get__ because inspect
// recognises a routine by that.
PyObject* function_descr_get(PyObject* self, PyObject*, PyObject*) {
  Py_INCREF(self);
  return self;
}
PyObject* op_descr_get(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, object);
}

const OpGroup& group_of(PyObject* o) { return *reinterpret_cast<PyOp*>(o)->group; }

PyObject* op_getattro(PyObject* o, PyObject* name) {
  return op_attribute(o, name, group_of(o).records[0]->foreign);
}
PyObject* op_repr(PyObject* o) {
  return PyUnicode_FromFormat("<built-in %s %s>", Py_TYPE(o) == method_type ? "method" : "function",
                              group_of(o).name.c_str());
}
PyObject* op_name(PyObject* o, void*) { return PyUnicode_FromString(group_of(o).name.c_str()); }
PyObject* op_qualname(PyObject* o, void*) {
  const char* owner = Py_TYPE(o) == method_type ? "Tensor." : "";
  return PyUnicode_FromFormat("%s%s", owner, group_of(o).name.c_str());
}
// Returns the module where pickle finds the op by name: the public one if it holds this very
// object.
PyObject* op_module(PyObject* o, void*) {
  return guarded([&] {
    const OpGroup& g = group_of(o);
    if (const ForeignOp* f = g.records[0]->foreign)
      return py::str("cograd.ops." + f->library).release().ptr();
    const auto holds = [&](const char* module) {
      return py::getattr(py::module_::import(module), g.name.c_str(), py::none()).is(py::handle(o));
    };
    const char* where = Py_TYPE(o) == method_type || holds("cograd") ? "cograd"
                        : holds("cograd._C._nn")                     ? "cograd._C._nn"
                                                                     : "cograd._C._ops";
    return py::str(where).release().ptr();
  });
}
PyObject* op_doc(PyObject* o, void*) {
  const OpGroup& g = group_of(o);
  std::string text;
  for (const OpRecord* r : g.records) {
    if (!text.empty()) text += "\n\n";
    text += g.name + typed_signature(*r, g.inplace) + "\n\n" + r->spec.doc;
  }
  return PyUnicode_FromString(text.c_str());
}
PyObject* op_text_signature(PyObject* o, void*) {
  const OpGroup& g = group_of(o);
  return PyUnicode_FromString(plain_signature(g.records, g.inplace).c_str());
}
// Builds an inspect.Signature; an op with several forms has the types of all of them.
PyObject* op_signature(PyObject* o, void*) {
  return guarded([&] {
    const OpGroup& g = group_of(o);
    py::list forms;
    for (const OpRecord* r : g.records) forms.append(typed_signature(*r, g.inplace));
    const py::object build = py::module_::import("cograd._base.op_signature").attr("signature");
    return build(plain_signature(g.records, g.inplace), forms).release().ptr();
  });
}
PyObject* op_reduce(PyObject* o, PyObject*) {
  return guarded([&] {
    if (const ForeignOp* f = group_of(o).records[0]->foreign)
      return py::make_tuple(py::module_::import("cograd._C").attr("_find_op"),
                            py::make_tuple(f->qualified))
          .release()
          .ptr();
    return op_qualname(o, nullptr);  // a name, by which copy and pickle find this object
  });
}

PyTypeObject* make_op_type(const char* name, bool method) {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(PyOp, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyGetSetDef getset[] = {
      {"__name__", op_name, nullptr, nullptr, nullptr},
      {"__qualname__", op_qualname, nullptr, nullptr, nullptr},
      {"__module__", op_module, nullptr, nullptr, nullptr},
      {"__doc__", op_doc, nullptr, nullptr, nullptr},
      {"__text_signature__", op_text_signature, nullptr, nullptr, nullptr},
      {"__signature__", op_signature, nullptr, nullptr, nullptr},
      {}};
  static PyMethodDef methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr}, {}};
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
                         {Py_tp_getattro, reinterpret_cast<void*>(op_getattro)},
                         {Py_tp_members, members},
                         {Py_tp_getset, getset},
                         {Py_tp_methods, methods},
                         {Py_tp_descr_get, method ? reinterpret_cast<void*>(op_descr_get)
                                                  : reinterpret_cast<void*>(function_descr_get)},
                         {0, nullptr}};
  PyType_Spec spec = {name, sizeof(PyOp), 0,
                      static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                                            Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                            (method ? Py_TPFLAGS_METHOD_DESCRIPTOR : 0)),
                      slots};
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw_python_error();
  return type;
}

py::object make_op(const OpGroup* g) {
  PyTypeObject* type = g->form == OpGroup::Form::Function ? function_type : method_type;
  auto* o = PyObject_New(PyOp, type);
  if (o == nullptr) throw_python_error();
  o->vectorcall = op_vectorcall;
  o->group = g;
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(o));
}

}  // namespace

namespace {

thread_local PyObject* stop_reason = nullptr;  // owned; set while thread_state.stop is

// Makes the running op, or else the next one of this thread, raise `reason`; None takes it back.
void stop_after_op(const py::object& reason) {
  thread_state.stop = !reason.is_none();
  PyObject* before =
      std::exchange(stop_reason, thread_state.stop ? reason.inc_ref().ptr() : nullptr);
  Py_XDECREF(before);  // last: it may run code
}

}  // namespace

PyObject* stopped(PyObject* made) noexcept {
  thread_state.stop = false;
  PyObject* reason = std::exchange(stop_reason, nullptr);
  Py_XDECREF(made);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(reason)), reason);
  Py_DECREF(reason);
  return nullptr;
}

py::object foreign_op_object(const ForeignOp& op) {
  static std::map<const ForeignOp*, py::object>* objects =
      new std::map<const ForeignOp*, py::object>;
  py::object& known = (*objects)[&op];
  if (known) return known;
  auto* g = new OpGroup;  // lives as long as the op: forever
  g->name = op.name;
  g->form = OpGroup::Form::Function;
  g->records.push_back(&op.record);
  known = make_op(g);
  return known;
}

void init_ops(py::module_& m) {
  function_type = make_op_type("cograd.builtin_function", false);
  method_type = make_op_type("cograd.builtin_method", true);
  using Form = OpGroup::Form;
  static std::map<std::tuple<std::string, Form, bool>, OpGroup> groups;
  const auto add = [](const OpRecord* r, std::string name, Form form, bool nn,
                      bool inplace = false) {
    OpGroup& g = groups[{name, form, nn}];
    g.name = std::move(name);
    g.form = form;
    g.inplace = inplace;
    g.records.push_back(r);
  };
  for (const OpRecord* r : op_table()) {
    const uint32_t f = r->spec.flags;
    const std::string name = r->spec.name;
    if ((f & (kFunction | kInternal)) != 0) add(r, name, Form::Function, (f & kNN) != 0);
    if ((f & kMethod) != 0) add(r, name, Form::Method, false);
    if (r->has_inplace) {
      add(r, name + "_", Form::Method, false, true);
      if ((f & kFunction) != 0) add(r, name + "_", Form::Function, (f & kNN) != 0, true);
    }
    if ((f & kNN) != 0 && (f & kFunction) == 0) add(r, name, Form::Function, true);
  }
  py::module_ nn = m.def_submodule("_nn", "Ops for nn.functional.");
  py::module_ functions = m.def_submodule("_ops", "Every op as a function.");
  for (auto& [key, g] : groups) {
    const auto& [name, form, in_nn] = key;
    py::object op = make_op(&g);
    if (form == Form::Function) {
      (in_nn ? nn : functions).attr(name.c_str()) = op;
    } else {
      py::handle(reinterpret_cast<PyObject*>(tensor_type)).attr(name.c_str()) = op;
    }
  }
  m.def("_op_table", &op_table_list, "One dict per op record.");
  m.def("_observed_calls", &observed_calls, py::arg("f"),
        "Calls f(). Returns the ops that ran on this thread: 'add', in place 'add_', with out= "
        "'add.out'.");
  m.def("_stop_after_op", &stop_after_op, py::arg("reason"),
        "Makes the running op, or else the next one of this thread, raise this; None: takes it "
        "back.");
  m.def("_parse_schema", &parse_schema, "The parts of a typed schema.");
}

}  // namespace cograd::python
