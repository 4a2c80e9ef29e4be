// SPDX-License-Identifier: BSD-3-Clause
// Exposes the CUDA runtime to cograd.cuda. Waits let other Python threads run.
#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "api/cuda_kernel.h"
#include "ops/random/generator.h"
#include "python/ops/backends.h"
#include "python/runtime/class.h"
#include "python/tensor/tensor.h"
#include "tensor/backend.h"
#include "tensor/nccl.h"

namespace cograd::python {

namespace {

CudaRuntime& runtime() { return api::cuda_runtime({}); }

py::list libraries() {
  py::list all;
  for (const CudaRuntime::Library& l : runtime().libraries())
    all.append(py::make_tuple(l.name, l.path, l.version, l.missing));
  return all;
}

py::dict properties_of(int device) {
  const GpuProperties p = runtime().properties(device);
  py::dict d;
  d["name"] = p.name;
  d["major"] = p.major;
  d["minor"] = p.minor;
  d["total_memory"] = p.total_memory;
  d["multi_processor_count"] = p.multiprocessors;
  d["warp_size"] = p.warp_size;
  d["max_threads_per_multi_processor"] = p.max_threads_per_multiprocessor;
  d["shared_memory_per_block"] = p.shared_per_block;
  d["shared_memory_per_block_optin"] = p.shared_per_block_optin;
  d["regs_per_multiprocessor"] = p.registers_per_multiprocessor;
  d["L2_cache_size"] = p.l2_cache;
  return d;
}

py::dict memory_of(int device) {
  const GpuMemory m = runtime().memory(device);
  py::dict d;
  const auto put = [&d](const std::string& name, const GpuMemory::Number& n) {
    const std::string all = name + ".all.";
    d[py::str(all + "current")] = n.current;
    d[py::str(all + "peak")] = n.peak;
    d[py::str(all + "allocated")] = n.allocated;
    d[py::str(all + "freed")] = n.freed;
  };
  put("allocation", m.blocks);
  put("allocated_bytes", m.bytes);
  put("segment", m.segments);
  put("reserved_bytes", m.reserved);
  d["num_alloc_retries"] = m.retries;
  d["num_ooms"] = m.failures;
  return d;
}

// Returns an argument of a kernel. It borrows what `o` refers to.
cograd_value argument_of(PyObject* o) {
  cograd_value v{};
  Scalar s;
  if (is_tensor(o)) {
    v.kind = COGRAD_TENSOR;
    v.u.tensor = reinterpret_cast<cograd_tensor>(unwrap(o).impl());
  } else if (o != Py_None && parse_scalar(o, &s)) {
    Value number;
    number.set_scalar(s);
    v = number.to_c();
  } else if (o != Py_None) {
    v.kind = COGRAD_STRING;  // no kernel takes one, so the launch refuses it by name
  }
  return v;
}

std::array<int64_t, 3> three(const std::vector<int64_t>& v) {
  COGRAD_CHECK_VALUE(v.size() == 3, "launch(): expected three sizes, got ", v.size());
  return {v[0], v[1], v[2]};
}

void launch(api::CudaKernel& kernel, const py::tuple& args, const std::vector<int64_t>& grid,
            const std::vector<int64_t>& block, int64_t shared_bytes,
            std::optional<int64_t> threads) {
  std::vector<cograd_value> values;
  for (const py::handle o : args) values.push_back(argument_of(o.ptr()));
  const py::gil_scoped_release free;  // the first launch compiles
  kernel.launch({three(grid), three(block), shared_bytes, threads}, values);
}

// The name, type and dtype of each parameter.
py::list parameters_of(const api::CudaKernel& kernel) {
  py::list all;
  for (const api::KernelParameter& p : kernel.signature().parameters)
    all.append(py::make_tuple(
        p.name, p.type,
        p.dtype ? py::reinterpret_borrow<py::object>(dtype_object(*p.dtype)) : py::none()));
  return all;
}

void init_kernels(py::module_& m) {
  py::class_<api::CudaKernel> kernel(m, "_CudaKernel");
  forbid_new(kernel);
  m.def("_cuda_kernel", [](std::string text, const std::string& name,
                           std::vector<std::string> options,
                           const std::vector<std::string>& strided) {
    return std::make_unique<api::CudaKernel>(std::move(text), name, std::move(options), strided);
  });
  kernel.def("launch", &launch);
  kernel.def("compile", &api::CudaKernel::compile, py::call_guard<py::gil_scoped_release>());
  kernel.def_property_readonly("name", [](const api::CudaKernel& k) { return k.signature().name; });
  kernel.def_property_readonly("parameters", &parameters_of);
  // The number of compiled programs, the seconds they took, the name of the last one.
  m.def("_cuda_compilations", [] {
    const Compilations c = runtime().compilations();
    return py::make_tuple(c.count, c.seconds, c.last);
  });
  m.def("_cuda_compile_threads", [](int most) { runtime().set_compile_threads(most); });
  m.def("_cuda_wait_for_compile_threads", [] {
    while (true) {
      {
        const py::gil_scoped_release free;
        if (runtime().wait_for_compile_threads(0.05)) return;
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  });
  m.def("_cuda_kernel_names", &api::kernel_names);
}

// A graph, and the generators that it may draw from, which live at least as long.
class PyGraph {
 public:
  void know(const py::object& generator) {
    COGRAD_CHECK_TYPE(py::isinstance<Generator>(generator),
                      "CUDAGraph.register_generator_state(): expected a Generator, got ",
                      Py_TYPE(generator.ptr())->tp_name);
    COGRAD_CHECK_VALUE(py::cast<Generator&>(generator).device().type == DeviceType::CUDA,
                       "CUDAGraph.register_generator_state(): the generator is of the CPU, whose "
                       "numbers a graph does not draw");
    own_.push_back(generator);
  }
  void begin(uint64_t pool, int mode) {
    std::vector<Generator*> drawn{
        &default_generator_of({DeviceType::CUDA, static_cast<int8_t>(runtime().current())})};
    for (const py::object& o : own_) drawn.push_back(&py::cast<Generator&>(o));
    graph_->begin(pool, static_cast<CaptureMode>(mode), {drawn.begin(), drawn.end()});
    generators_ = std::move(drawn);
  }
  void replay() {
    std::vector<GpuGraph::Position> positions;
    const std::vector<uint64_t> draws = graph_->draws();
    for (size_t i = 0; i < draws.size(); ++i) {
      const kernels::PhiloxState s = generators_[i]->take(draws[i]);
      positions.push_back({s.seed, s.offset});
    }
    graph_->replay(positions);
  }
  GpuGraph& graph() { return *graph_; }

 private:
  std::unique_ptr<GpuGraph> graph_ = runtime().new_graph();
  std::vector<py::object> own_;
  std::vector<Generator*> generators_;
};

void init_graphs(py::module_& m) {
  using Free = py::call_guard<py::gil_scoped_release>;
  py::class_<PyGraph> graph(m, "_CudaGraph");
  forbid_new(graph);
  m.def("_cuda_new_graph", [] { return std::make_unique<PyGraph>(); });
  m.def("_cuda_new_pool", [] { return runtime().new_pool(); });
  m.def("_cuda_capturing", [](int device) {
    return capture_open() && runtime().captures({DeviceType::CUDA, static_cast<int8_t>(device)});
  });
  m.def("_cuda_set_wait_policy",
        [](int policy) { set_wait_policy(static_cast<WaitPolicy>(policy)); });
  m.def("_cuda_wait_policy", [] { return static_cast<int>(wait_policy()); });
  graph.def("know", &PyGraph::know)
      .def("begin", &PyGraph::begin)
      .def("replay", &PyGraph::replay)
      .def(
          "end", [](PyGraph& g, bool keep) { g.graph().end(keep); }, Free())
      .def("abort", [](PyGraph& g) { g.graph().abort(); })
      .def(
          "instantiate", [](PyGraph& g) { g.graph().instantiate(); }, Free())
      .def(
          "reset", [](PyGraph& g) { g.graph().reset(); }, Free())
      .def("pool", [](PyGraph& g) { return g.graph().pool(); })
      .def("print", [](PyGraph& g, const std::string& path) { g.graph().print(path); })
      .def("handle", [](PyGraph& g, bool compiled) { return g.graph().handle(compiled); });
}

// The calls as tuples: kind, from, to, count, type, op, peer.
using Call = std::tuple<int, uint64_t, uint64_t, size_t, int, int, int>;

void init_nccl(py::module_& m) {
  using Free = py::call_guard<py::gil_scoped_release>;
  m.def("_nccl_why_not", [] { return runtime().nccl().why_not(); });
  m.def("_nccl_version", [] { return runtime().nccl().version(); });
  m.def("_nccl_unique_id", [] { return py::bytes(runtime().nccl().unique_id()); });
  m.def("_nccl_join", [](int device, const py::bytes& id, int rank, int size) {
    const std::string bytes = id;
    const py::gil_scoped_release free;
    return runtime().nccl().join(device, bytes, rank, size);
  });
  m.def(
      "_nccl_leave",
      [](uint64_t communicator, bool abort) { runtime().nccl().leave(communicator, abort); },
      Free());
  m.def(
      "_nccl_run",
      [](const std::string& name, uint64_t communicator, int device, uint64_t stream,
         const std::vector<Call>& calls) {
        std::vector<NcclCall> all;
        for (const auto& [kind, from, to, count, type, op, peer] : calls)
          all.push_back({static_cast<NcclCall::Kind>(kind), from, to, count, type, op, peer});
        runtime().nccl().run(name.c_str(), communicator, device, stream, all);
      },
      Free());
  m.def("_nccl_failure",
        [](uint64_t communicator) { return runtime().nccl().failure(communicator); });
}

}  // namespace

void init_cuda(py::module_& m) {
  init_nccl(m);
  init_kernels(m);
  init_graphs(m);
  m.def("_cuda_count", &count_gpus);
  m.def("_cuda_started", [] { return backend_of(DeviceType::CUDA) != nullptr; });
  // Returns why there is no device, or "".
  m.def("_cuda_failure", [] {
    std::string why;
    return load_cuda(&why) == nullptr ? why : std::string();
  });
  m.def("_cuda_current", [] { return runtime().current(); });
  m.def("_cuda_set_current", [](int device) { runtime().set_current(device); });
  m.def("_cuda_properties", &properties_of);
  m.def("_cuda_memory", &memory_of);
  m.def("_cuda_reset_peaks", [](int device) { runtime().reset_peaks(device); });
  m.def("_cuda_free_and_total", [](int device) { return runtime().free_and_total(device); });
  m.def("_cuda_driver_version", [] { return runtime().driver_version(); });
  m.def("_cuda_libraries", &libraries);
  m.def("_cuda_plans", [](int kind, int device) {
    const PlanNumbers p = runtime().plans(static_cast<PlanKind>(kind), device);
    return py::make_tuple(p.count, p.most);
  });
  m.def(
      "_cuda_generator",
      [](int device) {
        return &default_generator_of({DeviceType::CUDA, static_cast<int8_t>(device)});
      },
      py::return_value_policy::reference);

  using Free = py::call_guard<py::gil_scoped_release>;
  m.def("_cuda_release_cached", [](int device) { runtime().release_cached(device); }, Free());
  m.def(
      "_cuda_limit_plans",
      [](int kind, int device, int64_t most) {
        runtime().limit_plans(static_cast<PlanKind>(kind), device, most);
      },
      Free());
  m.def(
      "_cuda_clear_plans",
      [](int kind, int device) { runtime().clear_plans(static_cast<PlanKind>(kind), device); },
      Free());
  m.def("_set_cudnn_switches",
        [](bool enabled, bool benchmark, int benchmark_limit, bool deterministic, bool tf32) {
          CudnnSwitches& s = cudnn_switches;
          s.enabled = enabled;
          s.benchmark = benchmark;
          s.benchmark_limit = benchmark_limit;
          s.deterministic = deterministic;
          s.tf32 = tf32;
        });
  m.def("_set_deterministic_algorithms",
        [](bool on) { cudnn_switches.deterministic_algorithms = on; });
  m.def("_cuda_synchronize", [](int device) { runtime().synchronize(device); }, Free());
  m.def("_cuda_new_stream",
        [](int device, int priority) { return runtime().new_stream(device, priority); });
  m.def("_cuda_current_stream", [](int device) { return runtime().current_stream(device); });
  m.def("_cuda_set_stream",
        [](int device, uint64_t stream) { runtime().set_stream(device, stream); });
  m.def(
      "_cuda_synchronize_stream",
      [](int device, uint64_t stream) { runtime().synchronize_stream(device, stream); }, Free());
  m.def("_cuda_stream_done",
        [](int device, uint64_t stream) { return runtime().stream_done(device, stream); });
  m.def("_cuda_new_event",
        [](int device, bool timed) { return runtime().new_event(device, timed); });
  m.def("_cuda_free_event", [](uint64_t event) { runtime().free_event(event); });
  m.def("_cuda_record_event", [](int device, uint64_t event, uint64_t stream) {
    runtime().record_event(device, event, stream);
  });
  m.def("_cuda_wait_event", [](int device, uint64_t stream, uint64_t event) {
    runtime().wait_event(device, stream, event);
  });
  m.def(
      "_cuda_synchronize_event", [](uint64_t event) { runtime().synchronize_event(event); },
      Free());
  m.def("_cuda_event_done", [](uint64_t event) { return runtime().event_done(event); });
  m.def("_cuda_milliseconds",
        [](uint64_t first, uint64_t last) { return runtime().milliseconds(first, last); });
}

}  // namespace cograd::python
