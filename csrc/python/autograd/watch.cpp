// SPDX-License-Identifier: BSD-3-Clause
// The Python side of anomaly mode, of the log of in-place writes and of the profiler.
#include <cstring>

#include "autograd/modes/thread_waits.h"
#include "autograd/run/run.h"
#include "python/autograd/saved.h"
#include "python/ops/autocast.h"
#include "python/ops/call.h"
#include "python/runtime/class.h"
#include "tensor/backend.h"
#include "tensor/memory_stats.h"

namespace cograd::python {

namespace {

PyObject* write_callback = nullptr;  // called before in-place writes, if set

// Returns the frames of the running Python code, innermost first: (code, line) pairs. Sets no
// error.
PyObject* capture_frames() noexcept {
  PyThreadState* state = PyThreadState_Get();
  PyFrameObject* f = PyThreadState_GetFrame(state);  // new reference
  PyObject* list = PyList_New(0);
  while (f != nullptr && list != nullptr) {
    PyObject* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(f));
    PyObject* pair = Py_BuildValue("(Ni)", code, PyFrame_GetLineNumber(f));
    if (pair != nullptr) PyList_Append(list, pair);
    Py_XDECREF(pair);
    PyFrameObject* back = PyFrame_GetBack(f);
    Py_DECREF(f);
    f = back;
  }
  Py_XDECREF(f);
  return list;
}

void node_made(Node* n) noexcept {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE gil = ensure_gil();
  {
    const py::error_scope keep;  // keeps a pending error
    n->extra().created_at = capture_frames();
    PyErr_Clear();
  }
  PyGILState_Release(gil);
}

py::object helper(const char* name) {
  return py::module_::import("cograd.autograd.anomaly_mode").attr(name);
}

std::string place_of(PyObject* frames) {
  return py::cast<std::string>(helper("_place")(py::handle(frames)));
}

std::string caller() {
  if (!Py_IsInitialized()) return {};
  const Gil gil;
  const py::error_scope keep;  // keeps a pending error
  try {
    const py::object frames = py::reinterpret_steal<py::object>(capture_frames());
    return frames ? place_of(frames.ptr()) : "";
  } catch (py::error_already_set&) {
    return {};
  }
}

std::string created_at(const Node* n) {
  PyObject* frames = made_at_frames(n);
  if (frames == nullptr) return {};
  const Gil gil;
  const py::error_scope keep;  // keeps a pending error
  try {
    return place_of(frames);
  } catch (py::error_already_set&) {
    return {};
  }
}

py::object frames_or_none(const Node* n) {
  PyObject* frames = made_at_frames(n);
  return frames != nullptr ? py::reinterpret_borrow<py::object>(frames) : py::none();
}

// Returns [(name, frames), ...] for a node and for the nodes that were running when it was made.
py::list origins(Node* n) {
  py::list out;
  NodeRef keep;
  while (n != nullptr) {
    out.append(py::make_tuple(n->name(), frames_or_none(n)));
    NodeExtra* extra = n->extra_or_null();
    keep = extra != nullptr ? extra->made_by : NodeRef();
    n = keep.get();
  }
  return out;
}

// Warns as torch does and adds the forward call's traceback to the exception.
void node_failed(Node* n, std::exception_ptr& error) noexcept {
  if (!Py_IsInitialized()) return;
  // The analyzer takes the rethrown exception for the end of this function.
  const PyGILState_STATE gil = ensure_gil();  // NOLINT(clang-analyzer-deadcode.DeadStores)
  {
    const py::error_scope keep;  // keeps a pending error
    try {
      try {
        std::rethrow_exception(error);
      } catch (...) {
        translate_exception();
      }
      py::error_already_set raised;
      helper("_explain")(raised.value(), origins(n));
      error = std::make_exception_ptr(std::move(raised));
    } catch (py::error_already_set& e) {
      error = std::make_exception_ptr(std::move(e));
    } catch (...) {
      PyErr_Clear();
    }
  }
  PyGILState_Release(gil);
}

// Returns one of an op's gradients, computed anew without a graph. Formulas read saved tensors and
// write nothing that anybody else holds.
Tensor gradient_again(Node* n, const py::list& grads, size_t output) {
  std::vector<Tensor> in, out(n->edges().size());
  for (py::handle g : grads) in.push_back(g.is_none() ? Tensor() : unwrap(g.ptr()));
  BackwardArgs args;
  args.grads = in;
  args.out = out;
  args.needs_mask = uint64_t{1} << output;
  args.keep_graph = true;
  const GradGuard off(false);
  staged_backward(*n, args);  // on the device of the node
  return out[output];
}

// User code must not run twice, and pack hooks are user code.
bool can_run_again(Node* n) {
  for (size_t i = 0; i < n->num_saved(); ++i)
    if (n->saved_slot(i)->packed()) return false;
  return n->op_text().name != nullptr;
}

// Says nothing if the saved tensors are freed.
std::string explain(Node* n, std::span<const Tensor> grads, size_t output) {
  if (!Py_IsInitialized()) return {};
  if (n->saved_owner()->released) return {};
  const Gil gil;
  const py::error_scope keep;  // keeps a pending error
  try {
    py::list in;
    for (const Tensor& g : grads)
      in.append(g.defined() ? py::reinterpret_steal<py::object>(wrap(g)) : py::none());
    py::object again = py::none();
    if (output < 64 && can_run_again(n))
      again = py::cpp_function([node = NodeRef::borrow(n), output](const py::list& given) {
        return py::reinterpret_steal<py::object>(wrap(gradient_again(node.get(), given, output)));
      });
    return py::cast<std::string>(helper("_reason")(n->name(), in, plain_saved_tensors(n), output,
                                                   again, watching(kWatchInf)));
  } catch (py::error_already_set& e) {
    if (e.matches(PyExc_Exception)) return {};
    throw;  // KeyboardInterrupt
  }
}

void before_write(const Tensor& t, const char* op) {
  const Gil gil;
  if (write_callback == nullptr) return;
  const PyRef callback = PyRef::borrow(write_callback);  // the call may end the mode that set it
  const PyRef arg(wrap(t));
  const PyRef name(PyUnicode_FromString(op));
  PyObject* const pair[2] = {arg.get(), name.get()};
  const PyRef r(PyObject_Vectorcall(callback.get(), pair, 2, nullptr));
  if (r.get() == nullptr) throw_python_error();
}

// Sets the callback of in-place writes; None removes it.
void set_write_callback(const py::object& f) {
  set_watch(kWatchCallback, !f.is_none());
  PyObject* fresh = f.is_none() ? nullptr : f.inc_ref().ptr();
  Py_XDECREF(std::exchange(write_callback, fresh));
}

py::object enter_mutation(const py::object& manager) {
  COGRAD_CHECK(write_callback == nullptr,
               "allow_mutation_on_saved_tensors contexts cannot be nested");
  const py::object context = manager.attr("_context");
  const py::object before_write = context.attr("before_write");
  manager.attr("_hooks").attr("__enter__")();
  set_write_callback(before_write);
  return context;
}

// Calls clear(), which is Python code, last, when the state is restored.
void exit_mutation(const py::object& manager) {
  set_write_callback(py::none());
  manager.attr("_hooks").attr("__exit__")();
  manager.attr("_context").attr("clear")();
}

// --- ops called from Python ------------------------------------------------------------------

bool finite(const Value& v) {
  switch (v.kind) {
    case COGRAD_TENSOR:
      return !v.has_tensor() || find_nonfinite(v.tensor(), true, true) < 0;
    case COGRAD_TENSORS:
      for (const Tensor& t : v.tensors())
        if (find_nonfinite(t, true, true) >= 0) return false;
      return true;
    case COGRAD_FLOAT:
      return v.number() - v.number() == 0;
    default:
      return true;
  }
}

// Ops without tensor arguments create values, and ops that return uninitialised memory compute
// none; their results are not checked.
bool is_checked(const OpRecord* r) {
  if ((r->spec.flags & kUninitialised) != 0) return false;
  for (const ArgInfo& a : r->args)
    if (a.kind == ArgKind::Tensor || a.kind == ArgKind::TensorOrScalar ||
        a.kind == ArgKind::Tensors)
      return true;
  return false;
}

bool finite_arguments(const OpRecord* r, const Value* args) {
  for (size_t i = 0; i < r->args.size(); ++i)
    if (!finite(args[i])) return false;
  return true;
}

void check_result(const OpRecord* r, const char* suffix, const Tensor& t, size_t index) {
  if (!t.defined()) return;
  const int64_t at = find_nonfinite(t, true, watching(kWatchInf));
  if (at < 0) return;
  const std::string text = element_text(t, at);
  const std::string place = caller();
  detail::fail(ErrorKind::Runtime, "Function '", r->spec.name, suffix, "' returned ",
               text.find("nan") != std::string::npos ? "nan" : "inf",
               " values in the forward pass, in its ", index,
               "th output, though its inputs are "
               "finite. The first is ",
               text, " at index ", coordinates(t, at), " of a tensor of shape ",
               to_string(t.sizes()), place.empty() ? "." : ", computed at " + place + ".");
}

template <class F, class Check>
void watched(const OpRecord* r, const Value* args, F&& run, Check&& check) {
  const bool judge = watching(kWatchForward) && is_checked(r) && finite_arguments(r, args);
  const int64_t begin = now_ns();
  run();
  if (watching(kWatchProfile))
    add_profile_event({ProfileEvent::Kind::Op, r->spec.name, 0, begin, now_ns()});
  if (judge) check();
}

py::list profile_events() {
  py::list out;
  for (const ProfileEvent& e : take_profile_events()) {
    constexpr const char* kKinds[] = {"op", "node", "user"};
    out.append(py::make_tuple(kKinds[static_cast<int>(e.kind)], e.name, e.sequence, e.begin_ns,
                              e.end_ns, e.thread, e.live_bytes, e.place));
  }
  return out;
}

py::list thread_waits() {
  py::list out;
  for (const ThreadWait& w : take_thread_waits())
    out.append(py::make_tuple(w.thread, w.begin_ns, w.end_ns, w.waited_ns));
  return out;
}

// Measures what GPUs do, or no more. The calls wait for GPUs, and other threads may hold what they
// wait for.
void time_gpus(bool on) {
  std::string why;
  CudaRuntime* const gpus = load_cuda(&why);
  if (gpus == nullptr) return;
  const py::gil_scoped_release free;
  gpus->time_launches(on);
}
py::list device_times() {
  std::vector<DeviceTime> times;
  if (Backend* const gpus = backend_of(DeviceType::CUDA); gpus != nullptr) {
    const py::gil_scoped_release free;
    times = static_cast<CudaRuntime*>(gpus)->device_times();
  }
  py::list out;
  for (const DeviceTime& t : times)
    out.append(
        py::make_tuple(t.name, t.device, t.stream, t.thread, t.launched_ns, t.begin_ns, t.end_ns));
  return out;
}

void set_anomaly(bool on, bool nan, bool forward, bool inf) {
  set_watch(kWatchNodes | kWatchWrites, on);
  set_watch(kWatchNan, on && nan);
  set_watch(kWatchForward, on && nan && forward);
  set_watch(kWatchInf, on && nan && inf);
}

py::tuple anomaly_state() {
  return py::make_tuple(watching(kWatchNodes), watching(kWatchNan), watching(kWatchForward),
                        watching(kWatchInf));
}

bool anomaly_option(const py::object& manager, const char* name) {
  const py::object given = manager.attr(name);
  COGRAD_CHECK_TYPE(PyBool_Check(given.ptr()), "detect_anomaly(): ", name, " must be a bool, got ",
                    Py_TYPE(given.ptr())->tp_name);
  return given.ptr() == Py_True;
}

void enter_anomaly(const py::object& manager) {
  const bool nan = anomaly_option(manager, "check_nan");
  const bool forward = anomaly_option(manager, "forward");
  const bool inf = anomaly_option(manager, "inf");
  manager.attr("prev") = anomaly_state();
  set_anomaly(true, nan, forward, inf);
}

void exit_anomaly(const py::object& manager) {
  bool on[4];
  const auto before = py::cast<py::tuple>(manager.attr("prev"));
  for (size_t i = 0; i < 4; ++i) on[i] = py::cast<bool>(before[i]);
  set_anomaly(on[0], on[1], on[2], on[3]);
}

// --- autograd.profiler.profile -----------------------------------------------------------------

py::object enter_profile(const py::object& manager) {
  if (!py::cast<bool>(manager.attr("enabled"))) return manager;
  COGRAD_CHECK(!py::cast<bool>(manager.attr("entered")),
               "Profiler context manager is not reentrant");
  COGRAD_CHECK(!watching(kWatchProfile), "Profiler is already enabled on this process");
  const auto notes = py::cast<py::tuple>(manager.attr("_notes"));
  const bool memory = py::cast<bool>(notes[0]), places = py::cast<bool>(notes[1]);
  const bool gpus = py::cast<bool>(notes[2]);
  take_profile_events();
  take_thread_waits();
  start_thread_waits();
  manager.attr("entered") = true;
  manager.attr("_begin") = now_ns();
  manager.attr("_active") = true;
  set_profile_options(memory, places);
  if (gpus) time_gpus(true);
  set_watch(kWatchProfile, true);
  return manager;
}

void exit_profile(const py::object& manager) {
  if (!py::cast<bool>(manager.attr("enabled"))) return;
  COGRAD_CHECK(py::cast<bool>(manager.attr("_active")),
               "Can't disable the profiler when it's not running: profile.__exit__() without an "
               "__enter__() before it");
  manager.attr("_active") = false;
  set_watch(kWatchProfile, false);
  set_profile_options(false, false);
  const auto events = [&] {
    manager.attr("_waits") = thread_waits();
    manager.attr("_raw") = profile_events();
  };
  if (py::cast<bool>(py::cast<py::tuple>(manager.attr("_notes"))[2])) {
    try {
      time_gpus(false);
      manager.attr("_device") = device_times();
    } catch (...) {  // a failure of a GPU loses nothing of the CPU's events
      events();
      throw;
    }
  }
  events();
}

// Calls a method of profiler.profile, which is Python code; stops the profiler's run if it raises.
void call_or_stop(const py::object& manager, const char* method) {
  try {
    manager.attr(method)();
  } catch (py::error_already_set&) {
    const py::object run = manager.attr("_run");
    if (!run.is_none() && py::cast<bool>(run.attr("_active"))) exit_profile(run);
    throw;
  }
}

}  // namespace

void call_watched(const OpRecord* r, const Value* given, Result& out) {
  AutocastArguments cast;
  const Value* args = cast.of(*r, given);
  watched(
      r, args, [&] { call_plain(r, args, out); },
      [&] {
        if (out.kind == Result::Kind::Tensor) check_result(r, "", out.tensor, 0);
        for (size_t i = 0; i < out.tensors.size(); ++i) check_result(r, "", out.tensors[i], i);
      });
}
void inplace_watched(const OpRecord* r, const Tensor& self, const Value* args) {
  watched(r, args, [&] { inplace_plain(r, self, args); }, [&] { check_result(r, "_", self, 0); });
}

PyObject* made_at_frames(const Node* n) {
  const NodeExtra* extra = n->extra_or_null();
  return extra == nullptr ? nullptr : static_cast<PyObject*>(extra->created_at);
}

void fill_metadata(Node* n, PyObject* dict) {
  const py::dict d = py::reinterpret_borrow<py::dict>(dict);
  if (PyObject* frames = made_at_frames(n); frames != nullptr && !d.contains("traceback_"))
    d["traceback_"] = helper("_format")(py::handle(frames));
  const NodeExtra* extra = n->extra_or_null();
  if (extra != nullptr && extra->made_by && !d.contains("parent_"))
    d["parent_"] = py::reinterpret_steal<py::object>(node_object(extra->made_by.get()));
}

void init_watch(py::module_& m) {
  watch_handlers.node_made = node_made;
  watch_handlers.node_failed = node_failed;
  watch_handlers.caller = caller;
  watch_handlers.created_at = created_at;
  watch_handlers.before_write = before_write;
  watch_handlers.explain = explain;
  m.def("_set_anomaly", &set_anomaly);
  m.def("is_anomaly_enabled", [] { return watching(kWatchNodes); }, "True if anomaly mode is on.");
  m.def(
      "is_anomaly_check_nan_enabled", [] { return !watching(kWatchNodes) || watching(kWatchNan); },
      "True if anomaly mode searches gradients for nan.");
  m.def("_anomaly_state", &anomaly_state);
  m.attr("_enter_anomaly") = enter_method(&enter_anomaly);
  m.attr("_exit_anomaly") = exit_method(&exit_anomaly);
  m.def("_has_write_callback", [] { return write_callback != nullptr; });
  m.attr("_enter_mutation") = enter_method(&enter_mutation);
  m.attr("_exit_mutation") = exit_method(&exit_mutation);
  m.attr("_enter_profile") = enter_method(&enter_profile);
  m.attr("_exit_profile") = exit_method(&exit_profile);
  m.attr("_enter_start") = enter_method([](const py::object& manager) {
    call_or_stop(manager, "start");
    return manager;
  });
  m.attr("_exit_stop") =
      exit_method([](const py::object& manager) { call_or_stop(manager, "stop"); });
  m.def("_live_bytes", &live_bytes, "Returns the bytes of tensor data in separate blocks.");
  m.def("_profiling", [] { return watching(kWatchProfile); });
  m.def("_profile_now", &now_ns);
  m.def("_profile_add", [](const std::string& name, int64_t begin, int64_t end) {
    add_profile_event({ProfileEvent::Kind::User, name, 0, begin, end});
  });
}

}  // namespace cograd::python
