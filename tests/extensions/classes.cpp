// SPDX-License-Identifier: BSD-3-Clause
// Classes for Python: every way to define a member, objects as arguments and results, state.
#include <cograd/class.h>
#include <cograd/extension.h>

#include <atomic>

using namespace cograd;

namespace {

std::atomic<int64_t> alive{0};

struct Stack {
  explicit Stack(std::vector<Tensor> first = {}, std::string named = "")
      : items(std::move(first)), label(std::move(named)) {
    ++alive;
  }
  Stack(const Stack&) = delete;
  ~Stack() { --alive; }

  void push(const Tensor& x, int64_t times) {
    COGRAD_CHECK_VALUE(times >= 0, "push(): times is negative: ", times);
    for (int64_t i = 0; i < times; ++i) items.push_back(x);
  }
  Tensor pop() {
    COGRAD_CHECK_INDEX(!items.empty(), "pop from an empty Stack");
    Tensor last = items.back();
    items.pop_back();
    return last;
  }
  int64_t size() const noexcept { return static_cast<int64_t>(items.size()); }
  Tensor total(double scale) const {
    Tensor sum = items.at(0);
    for (size_t i = 1; i < items.size(); ++i) sum = sum + items[i];
    return sum * scale;
  }

  std::vector<Tensor> items;
  std::string label;
  std::shared_ptr<Stack> next;
};

struct Plain {
  int64_t n = 0;
};

COGRAD_LIBRARY(t_classes, m) {
  m.class_<Stack>("Stack", "Tensors, the last one first.")
      .def(init<std::vector<Tensor>, std::string>(), "items=[], label=''")
      .def("push", &Stack::push, "x, times=1", "Puts x on top.")
      .def("pop", &Stack::pop)
      .def("__len__", &Stack::size)
      .def("total", &Stack::total, "*, scale=1.0")
      .def(
          "merge",
          [](Stack& self, const std::shared_ptr<Stack>& other) {
            for (const Tensor& t : other->items) self.items.push_back(t);
          },
          "other")
      .def("me", [](const std::shared_ptr<Stack>& self) { return self; })
      .def(
          "link",
          [](Stack& self, std::optional<std::shared_ptr<Stack>> next) {
            self.next = next.value_or(nullptr);
          },
          "next=None")
      .def("linked", [](const Stack& self) { return self.next; })
      .def_static(
          "of",
          [](const Tensor& x, int64_t n) {
            return std::make_shared<Stack>(std::vector<Tensor>(static_cast<size_t>(n), x));
          },
          "x, n")
      .def_property("size", &Stack::size, "How many there are.")
      .def_readwrite("label", &Stack::label)
      .def_pickle([](const Stack& s) { return std::make_tuple(s.items, s.label); },
                  [](std::tuple<std::vector<Tensor>, std::string> state) {
                    return std::make_shared<Stack>(std::get<0>(state), std::get<1>(state));
                  });
  m.class_<Plain>("Plain")
      .def(init<>())
      .def(
          "__call__", [](Plain& p, int64_t n) { return p.n += n; }, "n")
      .def("__eq__", [](const Plain& p, const std::shared_ptr<Plain>& o) { return p.n == o->n; })
      .def("__add__", [](const Plain& p, int64_t n) { return p.n + n; })
      .def("fail", [](Plain&) { throw std::out_of_range("far out"); });
  m.def("alive", [] { return alive.load(); });
  m.def("depth", [](const std::shared_ptr<Stack>& s) { return s->size(); }, "stack");
}

}  // namespace
