// SPDX-License-Identifier: BSD-3-Clause
// Threads that share leaves, graphs and views through the C++ interface, where no interpreter's
// lock puts their calls in an order.
#include <cograd/extension.h>

#include <atomic>
#include <thread>

#include "kernels_check.h"

using namespace cograd;

namespace {

constexpr int kThreads = 2;

// Where threads wait for each other, awake: what follows begins at the same time on all.
class Gate {
 public:
  void wait() {
    const int now = round_.load();
    if (arrived_.fetch_add(1) + 1 == kThreads) {
      arrived_.store(0);
      round_.fetch_add(1);
    } else {
      while (round_.load() == now) std::this_thread::yield();
    }
  }

 private:
  std::atomic<int> arrived_{0}, round_{0};
};

// Rounds of: prepare() on one thread, work(k) on every thread k at once, verify() on one.
template <class Prepare, class Work, class Verify>
void rounds(int count, const Prepare& prepare, const Work& work, const Verify& verify) {
  Gate gate;
  const auto body = [&](int k) {
    for (int r = 0; r < count; ++r) {
      if (k == 0) prepare();
      gate.wait();
      work(k);
      gate.wait();
      if (k == 0) verify();
    }
  };
  std::vector<std::thread> threads;
  for (int k = 0; k < kThreads; ++k) threads.emplace_back(body, k);
  for (std::thread& t : threads) t.join();
}

Tensor leaf(double value = 0) { return full({2}, value, kDouble).requires_grad_(); }
double total(const Tensor& t) { return t.defined() ? t.sum().item<double>() : -1; }

// What is made when a leaf is first used belongs to all who use it.
void test_first_use_of_leaves() {
  std::vector<Tensor> leaves(500);
  rounds(
      600,
      [&] {
        for (Tensor& x : leaves) x = leaf();
      },
      [&](int k) {
        for (const Tensor& x : leaves) (x * (k + 1)).sum().backward();
      },
      [&] {
        for (const Tensor& x : leaves) check_close(total(x.grad()), 6, 0, "sum of two gradients");
      });
}

// Hooks of several threads on one tensor: each is called, once.
void test_hooks(bool on_leaves) {
  std::vector<Tensor> leaves(500), hooked(500);
  std::atomic<int> calls{0};
  rounds(
      300,
      [&] {
        for (size_t i = 0; i < leaves.size(); ++i) {
          leaves[i] = leaf();
          hooked[i] = on_leaves ? leaves[i] : leaves[i] * 2;
        }
        calls = 0;
      },
      [&](int) {
        for (const Tensor& x : hooked) x.register_hook([&](const Tensor&) { ++calls; });
      },
      [&] {
        for (const Tensor& x : hooked) x.sum().backward();
        check(calls == kThreads * 500, "hooks called: " + std::to_string(calls.load()));
      });
}

// A hook comes and goes while another thread runs backward through its tensor.
void test_hooks_during_runs() {
  Tensor x, y;
  std::atomic<int> calls{0};
  rounds(
      100,
      [&] {
        x = leaf();
        y = x * 3;
        y.register_hook([&](const Tensor&) { ++calls; });
        calls = 0;
      },
      [&](int k) {
        for (int i = 0; i < 300; ++i) {
          if (k == 0) {
            y.sum().backward({}, true);
          } else {
            const auto id = y.register_hook([](const Tensor& g) { return g * 1; });
            y.remove_hook(id);
          }
        }
      },
      [&] {
        check(calls == 300, "calls of the hook that stays: " + std::to_string(calls.load()));
        check_close(total(x.grad()), 2 * 3 * 300, 0, "gradient of 300 runs");
      });
}

// One graph that is kept, run by all: the intermediate's gradient is the sum, as the leaf's is.
void test_retained_gradients() {
  Tensor x, y, z;
  rounds(
      100,
      [&] {
        x = leaf();
        y = x * 3;
        y.retain_grad();
        z = (y * 2).sum();
      },
      [&](int) {
        for (int i = 0; i < 200; ++i) z.backward({}, true);
      },
      [&] {
        check_close(total(y.grad()), 2 * 2 * 200 * kThreads, 0, "retained gradient");
        check_close(total(x.grad()), 2 * 6 * 200 * kThreads, 0, "leaf's gradient");
      });
}

// The last reference on an intermediate goes while a run stores its gradient.
void test_retained_tensors_that_die() {
  std::vector<Tensor> inner(500), roots(500);
  Tensor x;
  rounds(
      300,
      [&] {
        x = leaf();
        for (size_t i = 0; i < inner.size(); ++i) {
          inner[i] = x * 3;
          inner[i].retain_grad();
          roots[i] = inner[i].sum();
        }
      },
      [&](int k) {
        for (size_t i = 0; i < inner.size(); ++i) {
          if (k == 0)
            roots[i].backward();
          else
            inner[i] = Tensor();
        }
      },
      [&] { check_close(total(x.grad()), 2 * 3 * 500, 0, "gradient"); });
}

// A view learns of a write to its base when it is next used: here by all threads at once.
void test_views_of_written_bases() {
  std::vector<Tensor> views(500);
  Tensor x;
  rounds(
      300,
      [&] {
        x = leaf(1);
        for (Tensor& v : views) {
          const Tensor base = x * 1;
          v = base.select(0, 0);
          base.mul_(3);
        }
      },
      [&](int k) {
        for (const Tensor& v : views) (v * (k + 1)).backward({}, true);
      },
      [&] { check_close(total(x.grad()), 500 * 3 * 3, 0, "gradient through 500 views"); });
}

// .grad is read, and let go, while another thread's runs put new ones there.
void test_gradients_read_during_runs() {
  const Tensor x = leaf(1);
  rounds(
      100, [&] { x.set_grad(Tensor()); },
      [&](int k) {
        for (int i = 0; i < 1000; ++i) {
          if (k == 0) {
            (x * x).sum().backward({}, false, true);
          } else if (const Tensor g = x.grad(); g.defined()) {
            if (g.numel() != 2) check(false, "gradient read during a run");
          }
        }
      },
      [&] { check_close(total(x.grad()), 2 * 2 * 1000, 0, "gradient of 1000 runs"); });
}

}  // namespace

int main() {
  test_first_use_of_leaves();
  test_hooks(true);
  test_hooks(false);
  test_hooks_during_runs();
  test_retained_gradients();
  test_retained_tensors_that_die();
  test_views_of_written_bases();
  test_gradients_read_during_runs();
  return report("autograd_threads_test");
}
