// SPDX-License-Identifier: BSD-3-Clause
// C++ classes for Python without pybind11: objects keep state between calls, and one binary works
// with every Python version.
//   COGRAD_LIBRARY(demo, m) {
//     m.class_<Counter>("Counter").def(init<int64_t>(), "start=0").def("add", &Counter::add, "x");
//   }
// Python sees cograd.classes.demo.Counter. A method is an op whose first argument is the object's
// number, so arguments, results, errors and gradients work as in ops.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>

#include "cograd/library.h"

namespace cograd {
inline namespace abi1 {

// The parameter types of a constructor.
template <class... A>
struct Init {};
template <class... A>
constexpr Init<A...> init() noexcept {
  return {};
}

namespace ext {

// The objects of T that Python holds, by number. The upper bits of a number identify the class, so
// that an object of another class is detected.
template <class T>
class Objects {
 public:
  static Objects& all() {
    static auto* const objects = new Objects;  // never freed: Python may hold objects at exit
    return *objects;
  }
  const std::string& name() const noexcept { return name_; }
  void set_name(const std::string& name) {
    name_ = name;
    uint64_t h = 14695981039346656037u;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
    mark_ = static_cast<int64_t>(h >> 41) << kCountBits;
  }
  // Adds a holder to an object and returns its number, which stays the same while it has a holder.
  int64_t hold(std::shared_ptr<T> object) {
    COGRAD_CHECK(!name_.empty(), "the class of this object was not registered with class_");
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = numbers_.find(object.get());
    if (known != numbers_.end()) {
      ++held_.at(known->second).holders;
      return known->second;
    }
    const int64_t number = mark_ | next_++;
    numbers_.emplace(object.get(), number);
    held_.emplace(number, Held{std::move(object), 1});
    return number;
  }
  std::shared_ptr<T> get(int64_t number) {
    COGRAD_CHECK_TYPE((number >> kCountBits) == (mark_ >> kCountBits), "expected an object of ",
                      name_, ", got an int or an object of another class");
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = held_.find(number);
    COGRAD_CHECK(found != held_.end(), "this object of ", name_, " was released");
    return found->second.object;
  }
  // Removes a holder. Returns the object if it was the last one, so that the caller destroys it
  // without the lock.
  std::shared_ptr<T> release(int64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = held_.find(number);
    if (found == held_.end() || --found->second.holders > 0) return nullptr;
    std::shared_ptr<T> object = std::move(found->second.object);
    numbers_.erase(object.get());
    held_.erase(found);
    return object;
  }

 private:
  static constexpr int kCountBits = 40;
  struct Held {
    std::shared_ptr<T> object;
    int64_t holders;
  };
  std::mutex mutex_;
  std::unordered_map<int64_t, Held> held_;
  std::unordered_map<const T*, int64_t> numbers_;
  std::string name_;
  int64_t mark_ = 0;
  int64_t next_ = 1;
};

// Conversions of objects as arguments and as results.
template <class T>
struct Argument<std::shared_ptr<T>> : Of<COGRAD_INT> {
  static std::shared_ptr<T> get(const cograd_value& v) {
    return Objects<T>::all().get(v.u.integer);
  }
};
template <class T>
struct Pushed<std::shared_ptr<T>> {
  static void push(cograd_results r, const std::shared_ptr<T>& object) {
    ext::push(r, object == nullptr ? cograd_value{} : boxed(Objects<T>::all().hold(object)));
  }
};
// The name of the class that a function returns; "" if it does not return an object.
template <class R>
struct ResultClass {
  static std::string name() { return ""; }
};
template <class T>
struct ResultClass<std::shared_ptr<T>> {
  static std::string name() { return Objects<T>::all().name(); }
};
template <class R, class... A>
std::string result_class(const Signature<R, A...>*) {
  return ResultClass<R>::name();
}

// Converts a member function, or a callable whose first parameter is std::shared_ptr<T>, T& or
// const T&, into a callable whose first parameter is the pointer.
template <class T, class F, class R, class First, class... A>
auto bind_callable(F f, const Signature<R, First, A...>*) {
  if constexpr (std::is_same_v<std::decay_t<First>, std::shared_ptr<T>>) {
    return f;
  } else {
    static_assert(std::is_same_v<std::decay_t<First>, T>,
                  "the first parameter of a method is std::shared_ptr<T>, T& or const T&");
    return [f = std::move(f)](const std::shared_ptr<T>& self, A... a) mutable -> R {
      return f(*self, std::forward<A>(a)...);
    };
  }
}
template <class T, class F>
auto bind(F f) {
  using S = typename SignatureOf<F>::type;
  return bind_callable<T>(std::move(f), static_cast<const S*>(nullptr));
}
template <class T, class M, class R, class... A>
auto bind_member(M m, const Signature<R, A...>*) {
  return [m](const std::shared_ptr<T>& self, A... a) -> R {
    return ((*self).*m)(std::forward<A>(a)...);
  };
}
template <class T, class F>
auto bound(F f) {
  if constexpr (std::is_member_function_pointer_v<F>)
    return bind_member<T>(f, static_cast<const typename SignatureOf<F>::type*>(nullptr));
  else
    return bind<T>(std::move(f));
}

// setstate may accept one std::tuple or std::pair; the parameters of its op are the elements.
template <class S>
struct State {
  template <class F>
  static F spread(F f) {
    return f;
  }
};
template <class R, class... A>
struct State<Signature<R, std::tuple<A...>>> {
  template <class F>
  static auto spread(F f) {
    return [f = std::move(f)](A... a) mutable -> R { return f(std::tuple<A...>(std::move(a)...)); };
  }
};
template <class R, class A, class B>
struct State<Signature<R, std::pair<A, B>>> {
  template <class F>
  static auto spread(F f) {
    return [f = std::move(f)](A a, B b) mutable -> R {
      return f(std::pair<A, B>(std::move(a), std::move(b)));
    };
  }
};
template <class R, class S>
struct State<Signature<R, const S&>> : State<Signature<R, S>> {};

}  // namespace ext

// Registers the members of a class; calls can be chained.
template <class T>
class Class {
 public:
  Class(Library& library, const char* name, const char* doc)
      : library_(library), name_(name), members_(std::make_shared<std::vector<Member>>()) {
    ext::Objects<T>::all().set_name(std::string(library.name()) + "::" + name);
    library_.def((name_ + "__class__").c_str(), [members = members_] {
      std::vector<std::string> told;
      for (const Member& m : *members)
        told.push_back(m.kind + "\t" + m.name + "\t" + m.op + "\t" + m.result());
      return told;
    });
    add("doc", doc == nullptr ? "" : doc, "", [] { return std::string(); });
    const auto release = [](int64_t number) { ext::Objects<T>::all().release(number); };
    define("release", "release", "_release", release, "number", nullptr);
  }
  // Defines the constructor: by its parameter types, or by a function that returns
  // std::shared_ptr<T>. args and doc are those of an op.
  template <class... A>
  Class& def(Init<A...>, const char* args = "", const char* doc = nullptr) {
    return def_init([](A... a) { return std::make_shared<T>(std::forward<A>(a)...); }, args, doc);
  }
  template <class F>
  Class& def_init(F f, const char* args = "", const char* doc = nullptr) {
    return define("init", "__init__", "_init", std::move(f), args, doc);
  }
  // Defines a method. args names the parameters after the object.
  template <class F>
  Class& def(const char* name, F f, const char* args = "", const char* doc = nullptr) {
    return method("method", name, ext::bound<T>(std::move(f)), args, doc);
  }
  template <class F>
  Class& def_static(const char* name, F f, const char* args = "", const char* doc = nullptr) {
    return define("static", name, name, std::move(f), args, doc);
  }
  template <class Get>
  Class& def_property(const char* name, Get get, const char* doc = nullptr) {
    return define("get", name, std::string("get_") + name, ext::bound<T>(std::move(get)), "self",
                  doc);
  }
  template <class Get, class Set,
            class = std::enable_if_t<!std::is_convertible_v<Set, const char*>>>
  Class& def_property(const char* name, Get get, Set set, const char* doc = nullptr) {
    def_property(name, std::move(get), doc);
    return define("set", name, std::string("set_") + name, ext::bound<T>(std::move(set)),
                  "self, value", nullptr);
  }
  template <class V>
  Class& def_readonly(const char* name, V T::* field, const char* doc = nullptr) {
    return def_property(name, [field](const T& self) -> V { return self.*field; }, doc);
  }
  template <class V>
  Class& def_readwrite(const char* name, V T::* field, const char* doc = nullptr) {
    return def_property(
        name, [field](const T& self) -> V { return self.*field; },
        [field](T& self, const V& value) { self.*field = value; }, doc);
  }
  // Defines pickle, copy and deepcopy: get returns an object's state, set creates an object of it.
  template <class Get, class Set>
  Class& def_pickle(Get get, Set set) {
    using S = typename ext::SignatureOf<Set>::type;
    define("getstate", "__getstate__", "_getstate", ext::bound<T>(std::move(get)), "self", nullptr);
    return define("setstate", "__setstate__", "_setstate", ext::State<S>::spread(std::move(set)),
                  "", nullptr);
  }

 private:
  struct Member {
    std::string kind, name, op;
    std::string (*result)();
  };
  void add(const char* kind, const std::string& name, const std::string& op,
           std::string (*result)()) {
    members_->push_back({kind, name, op, result});
  }
  template <class F>
  Class& method(const char* kind, const char* name, F f, const char* args, const char* doc) {
    const std::string given = args;
    const bool names = !given.empty() || ext::SignatureOf<F>::type::count == 1;
    const std::string all = !names ? "" : given.empty() ? "self" : "self, " + given;
    return define(kind, name, name, std::move(f), all.c_str(), doc);
  }
  template <class F>
  Class& define(const char* kind, const char* name, const std::string& suffix, F f,
                const char* args, const char* doc) {
    using S = typename ext::SignatureOf<F>::type;
    const std::string op = name_ + "__" + suffix;
    library_.def(op.c_str(), std::move(f), args, doc);
    add(kind, name, op, [] { return ext::result_class(static_cast<const S*>(nullptr)); });
    return *this;
  }

  Library& library_;
  std::string name_;
  std::shared_ptr<std::vector<Member>> members_;
};

template <class T>
Class<T> Library::class_(const char* name, const char* doc) {
  return Class<T>(*this, name, doc);
}

}  // namespace abi1
}  // namespace cograd
