// SPDX-License-Identifier: BSD-3-Clause
// Arguments and results across the C boundary, both ways.
#pragma once
#include <deque>

#include "api/handles.h"
#include "ops/core/registry.h"

namespace cograd::api {

// Room for the lists of one call; made when first asked for.
class Room {
 public:
  std::vector<int64_t>& ints() { return lists().ints.emplace_back(); }
  std::vector<cograd_string>& strings() { return lists().strings.emplace_back(); }
  std::vector<std::string_view>& views() { return lists().views.emplace_back(); }

 private:
  struct Lists {
    std::deque<std::vector<int64_t>> ints;
    std::deque<std::vector<cograd_string>> strings;
    std::deque<std::vector<std::string_view>> views;
  };
  Lists& lists() {
    if (lists_ == nullptr) lists_ = std::make_unique<Lists>();
    return *lists_;
  }
  std::unique_ptr<Lists> lists_;
};

// False if the value does not suit the parameter.
bool from_c(const ArgInfo& a, const cograd_value& v, Room& room, Value& out);
cograd_value to_c(const ArgInfo& a, const Value& v, Room& room);
// A result that owns what it holds.
cograd_value result_to_c(Result& r);
void result_from_c(const cograd_value& v, Result& r);

}  // namespace cograd::api
