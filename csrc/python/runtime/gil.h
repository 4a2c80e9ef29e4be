// SPDX-License-Identifier: BSD-3-Clause
// Wraps the interpreter lock. python/runtime/exit.cpp describes what happens to a thread that
// requests it while Python shuts down.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace cograd::python {

// noexcept gives these frames a personality routine of _C (python/runtime/exit.cpp), so that no
// frame below them is unwound.
inline PyGILState_STATE ensure_gil() noexcept { return PyGILState_Ensure(); }
inline void restore_thread(PyThreadState* state) noexcept { PyEval_RestoreThread(state); }

class Gil {
 public:
  Gil() noexcept : state_(ensure_gil()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace cograd::python
