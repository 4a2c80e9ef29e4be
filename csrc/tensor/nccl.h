// SPDX-License-Identifier: BSD-3-Clause
// NCCL, by which the GPUs of several processes exchange memory. libcograd_cuda.so implements it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cograd/error.h"

namespace cograd {

// One call of NCCL on contiguous memory of a GPU. `type` and `op` are NCCL's numbers; `peer` is the
// root of a broadcast and of a reduction, and the other side of a message.
struct NcclCall {
  enum class Kind : uint8_t {
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    Send,
    Receive
  };
  Kind kind;
  uint64_t from, to;
  size_t count;
  int type, op, peer;
};

// Communicators are handles. Errors are RuntimeErrors with the name of the call and NCCL's words.
class COGRAD_API Nccl {
 public:
  virtual ~Nccl() = default;
  virtual std::string why_not() = 0;  // why there is no library; empty if there is one
  virtual int version() = 0;
  // The bytes by which the ranks of a communicator find each other; one rank makes them.
  virtual std::string unique_id() = 0;
  // Returns this rank's part of a communicator; waits for all ranks.
  virtual uint64_t join(int device, const std::string& id, int rank, int size) = 0;
  // Ends a communicator: after its work, or at once.
  virtual void leave(uint64_t communicator, bool abort) noexcept = 0;
  // Starts calls on a stream, as a group if they are several. `name` is what users call it.
  virtual void run(const char* name, uint64_t communicator, int device, uint64_t stream,
                   const std::vector<NcclCall>& calls) = 0;
  // Returns what failed since the work began; empty if nothing did.
  virtual std::string failure(uint64_t communicator) = 0;
};

}  // namespace cograd
