// SPDX-License-Identifier: BSD-3-Clause
// The interpreter lock. What a thread meets that asks for it while Python ends: py_exit.cpp.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace cograd::python {

// noexcept: a frame of _C with a personality routine, so that no frame below it is unwound.
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
