// SPDX-License-Identifier: BSD-3-Clause
// Tells the layers above of a thread that uses cograd's memory for the first time.
#pragma once

namespace cograd {

// Null until a layer sets it. It may register a destructor of the thread: there is memory for one.
extern void (*on_new_thread)();

}  // namespace cograd
