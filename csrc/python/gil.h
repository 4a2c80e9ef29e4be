// SPDX-License-Identifier: BSD-3-Clause
// The interpreter lock. A thread that asks for it while Python is being finalized is ended by
// Python (before 3.14), which unwinds frames of C++ that may not be left: it waits for the exit.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace cograd::python {

// For threads that are not the main one, of a process that is about to end.
[[noreturn]] inline void wait_for_exit() noexcept {
  while (true) pause();
}

// What f() of C's raises is the end of the thread alone.
template <class F>
auto calling_python(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    wait_for_exit();
  }
}

inline PyGILState_STATE ensure_gil() noexcept { return calling_python(PyGILState_Ensure); }
inline void restore_thread(PyThreadState* state) noexcept {
  calling_python([state] { PyEval_RestoreThread(state); });
}

class Gil {
 public:
  Gil() noexcept : state_(ensure_gil()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// The user's code, called from where C++ has more to do.
inline PyObject* call_python(PyObject* f, PyObject* arg) noexcept {
  return calling_python([=] { return PyObject_CallOneArg(f, arg); });
}
inline PyObject* call_python(PyObject* f, PyObject* const* args, size_t n,
                             PyObject* names = nullptr) noexcept {
  return calling_python([=] { return PyObject_Vectorcall(f, args, n, names); });
}

}  // namespace cograd::python
