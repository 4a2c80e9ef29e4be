// SPDX-License-Identifier: BSD-3-Clause
// Handles threads that request the interpreter lock while Python shuts down. Before 3.14 Python
// ends them with pthread_exit(), for which glibc unwinds the stack: destructors run without the
// lock, and `noexcept` or `catch (...)` abort the process. Any C function of Python may do this, as
// it may run Python code. So the linker (--wrap) gives every frame of _C this personality routine.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <unistd.h>
#include <unwind.h>

namespace {

bool finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0 || Py_IsInitialized() == 0;
#else
  return _Py_IsFinalizing() != 0 || Py_IsInitialized() == 0;
#endif
}

}  // namespace

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): names required by --wrap
_Unwind_Reason_Code __real___gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class,
                                                _Unwind_Exception*, _Unwind_Context*);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception,
                                                _Unwind_Context* context) {
  if ((actions & _UA_FORCE_UNWIND) != 0 && finalizing())
    while (true) pause();  // the process is about to end, so stop here
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}
// NOLINTEND(bugprone-reserved-identifier)

}  // extern "C"
