// SPDX-License-Identifier: BSD-3-Clause
// Exports a recorded graph as flat arrays for drawing it: a million nodes take about a second.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "autograd/graph/saved_tensor.h"
#include "autograd/graph/variable.h"
#include "python/autograd/saved.h"

namespace cograd::python {

namespace {

// Numbers texts that many nodes share.
class Texts {
 public:
  int32_t number(const std::string& text) {
    const auto [at, fresh] = numbers_.try_emplace(text, static_cast<int32_t>(texts_.size()));
    if (fresh) texts_.push_back(text);
    return at->second;
  }
  py::list list() const {
    py::list out;
    for (const std::string& text : texts_) out.append(text);
    return out;
  }

 private:
  std::map<std::string, int32_t> numbers_;
  std::vector<std::string> texts_;
};

// Returns text such as "float32[3, 4]", one line per output.
std::string outputs_text(const Node& n) {
  std::string text;
  for (size_t i = 0; i < n.num_outputs(); ++i) {
    const OutputMeta& m = n.output(i);
    text += detail::concat(i > 0 ? "\n" : "", dtype_name(m.dtype), to_string(m.sizes));
  }
  return text;
}

// Returns the number of bytes a node saves; counts memory that several of its slots share once.
int64_t saved_bytes(Node& n) {
  std::vector<const void*> seen;
  int64_t bytes = 0;
  for (size_t i = 0; i < n.num_saved(); ++i) {
    const SavedTensor& s = *n.saved_slot(i);
    const Tensor t = s.defined() ? held_tensor(s) : Tensor();
    if (!t.defined() || std::find(seen.begin(), seen.end(), t->storage) != seen.end()) continue;
    seen.push_back(t->storage);
    bytes += static_cast<int64_t>(t->storage->nbytes);
  }
  return bytes;
}

template <class T>
py::bytes as_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class GraphData {
 public:
  explicit GraphData(const py::list& roots) {
    walk(roots);
    for (size_t i = 0; i < nodes_.size(); ++i) read(*nodes_[i].get(), static_cast<int32_t>(i));
  }
  py::dict dict() const {
    using namespace py::literals;
    return py::dict(
        "names"_a = names_.list(), "outputs"_a = outputs_.list(), "places"_a = places_.list(),
        "name"_a = as_bytes(name_), "output"_a = as_bytes(output_), "place"_a = as_bytes(place_),
        "sequence"_a = as_bytes(sequence_), "saved"_a = as_bytes(saved_), "ns"_a = as_bytes(ns_),
        "edges"_a = as_bytes(edges_), "edge_outputs"_a = as_bytes(inputs_), "leaves"_a = leaves_);
  }

 private:
  // Visits each node once, depth first, in a loop because graphs are deeper than any stack.
  void walk(const py::list& roots) {
    std::vector<Node*> open;
    for (const py::handle root : roots) open.push_back(node_of(root.ptr()));
    while (!open.empty()) {
      Node* n = open.back();
      open.pop_back();
      if (!numbers_.try_emplace(n, static_cast<int32_t>(nodes_.size())).second) continue;
      nodes_.push_back(NodeRef::borrow(n));
      for (const Edge& e : n->edges())
        if (e.node != nullptr) open.push_back(e.node);
    }
  }
  void read(Node& n, int32_t i) {
    name_.push_back(names_.number(n.name()));
    output_.push_back(outputs_.number(outputs_text(n)));
    place_.push_back(places_.number(watch_handlers.created_at(&n)));
    sequence_.push_back(static_cast<double>(n.sequence));
    saved_.push_back(static_cast<double>(saved_bytes(n)));
    const NodeExtra* extra = n.extra_or_null();
    ns_.push_back(static_cast<double>(extra == nullptr ? -1 : extra->profiled_ns));
    if (n.is_accumulator())
      leaves_.append(py::make_tuple(
          i, py::reinterpret_steal<py::object>(wrap(static_cast<AccumulateGrad&>(n).variable()))));
    for (const Edge& e : n.edges()) {
      if (e.node == nullptr) continue;
      edges_.push_back(numbers_.at(e.node));
      edges_.push_back(i);
      inputs_.push_back(static_cast<int32_t>(e.input_nr));
    }
  }

  std::unordered_map<const Node*, int32_t> numbers_;
  std::vector<NodeRef> nodes_;
  Texts names_, outputs_, places_;
  std::vector<int32_t> name_, output_, place_, edges_, inputs_;
  std::vector<double> sequence_, saved_, ns_;  // doubles: JavaScript reads them exactly up to 2^53
  py::list leaves_;
};

}  // namespace

void init_graph_data(py::module_& m) {
  m.def("_graph_data", [](const py::list& roots) { return GraphData(roots).dict(); });
  m.def("_next_sequence", [] { return thread_state.next_sequence; });
}

}  // namespace cograd::python
