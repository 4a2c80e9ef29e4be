// SPDX-License-Identifier: BSD-3-Clause
// The last error of each thread.
#include "api/error.h"

#include <atomic>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

#include "tensor/thread_locals.h"
#include "transforms/batch.h"

namespace cograd::api {

namespace {

struct LastError {
  cograd_status status = COGRAD_OK;
  std::string message;
  std::exception_ptr original;  // set if raise() must rethrow this very exception
  uint64_t token = 0;
};

constinit thread_local ThreadValue<LastError> own_error;
LastError& last_error() noexcept { return own_error.get(); }
const OnEachThread free_error(nullptr, []() noexcept { own_error.clear(); });

cograd_status status_of(ErrorKind k) noexcept { return static_cast<cograd_status>(k) + 1; }
ErrorKind kind_of(cograd_status s) noexcept {
  if (s < COGRAD_RUNTIME_ERROR || s > COGRAD_MEMORY_ERROR) return ErrorKind::Runtime;
  return static_cast<ErrorKind>(s - 1);
}
static_assert(static_cast<int>(ErrorKind::Memory) + 1 == COGRAD_MEMORY_ERROR);

bool in_word(char c) noexcept {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool has_word(std::string_view text, std::string_view word) noexcept {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !in_word(text[at - 1])) && (end == text.size() || !in_word(text[end])))
      return true;
  }
  return false;
}

uint64_t next_token() noexcept {
  // Unique in the process, as an error may be passed on to another thread.
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

cograd_status keep(cograd_status status, const char* text, size_t length,
                   std::exception_ptr original) noexcept {
  LastError& e = last_error();
  e.status = status;
  e.token = next_token();
  e.original = std::move(original);
  try {
    if (text != nullptr)
      e.message.assign(text, length);
    else
      e.message.clear();
  } catch (...) {
    e.message.clear();
  }
  return status;
}

}  // namespace

cograd_status capture() noexcept {
  try {
    throw;
  } catch (const CannotBatch& e) {  // kept, as a caller may catch it and run sample by sample
    return keep(status_of(e.kind()), e.message().data(), e.message().size(),
                std::current_exception());
  } catch (const Error& e) {
    return keep(status_of(e.kind()), e.message().data(), e.message().size(), nullptr);
  } catch (const std::bad_alloc&) {
    constexpr std::string_view text = "out of memory";
    return keep(COGRAD_MEMORY_ERROR, text.data(), text.size(), nullptr);
  } catch (...) {
    // An exception of another runtime, such as Python: its text is read only if needed.
    return keep(COGRAD_FOREIGN_ERROR, "", 0, std::current_exception());
  }
}

void raise(cograd_status status, std::string_view who) {
  LastError& e = last_error();
  if (e.status == status && e.original) {
    const std::exception_ptr original = std::move(e.original);
    e = LastError{};
    std::rethrow_exception(original);
  }
  std::string text = e.status == status
                         ? std::move(e.message)
                         : detail::concat("it failed with status ", static_cast<int64_t>(status),
                                          " and set no error");
  e = LastError{};
  // `who` is "library::op" or "OpBackward"; the message may already contain its short form.
  const size_t colon = who.rfind(':');
  const std::string_view name = colon == std::string_view::npos ? who : who.substr(colon + 1);
  if (!who.empty() && !has_word(text, name)) text = detail::concat(who, "(): ", text);
  throw Error(kind_of(status), std::move(text));
}

void forget() noexcept {
  LastError& e = last_error();
  if (e.original) [[unlikely]]
    e = LastError{};
}

}  // namespace cograd::api

using cograd::api::last_error;

cograd_status cograd_error_get(const char** message, size_t* length, uint64_t* token) noexcept {
  auto& e = last_error();
  if (e.original && e.message.empty()) {
    try {
      std::rethrow_exception(e.original);
    } catch (const std::exception& x) {
      try {
        e.message = x.what();
      } catch (...) {
        e.message.clear();
      }
    } catch (...) {
      try {
        e.message = "an exception of another language";
      } catch (...) {
        e.message.clear();
      }
    }
  }
  if (message != nullptr) *message = e.message.c_str();
  if (length != nullptr) *length = e.message.size();
  if (token != nullptr) *token = e.token;
  return e.status;
}

cograd_status cograd_error_set(cograd_status status, const char* message, size_t length,
                               uint64_t token) noexcept {
  auto& e = last_error();
  if (token != 0 && token == e.token) return e.status;  // passed on unchanged
  return cograd::api::keep(status, message, length, nullptr);
}

cograd_status cograd_fail(cograd_status status, const char* format, ...) noexcept {
  if (format == nullptr) return cograd_error_set(status, "", 0, 0);
  char text[1024];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return cograd_error_set(status, text, std::strlen(text), 0);
}

const char* cograd_last_error(void) noexcept {
  const char* text = "";
  cograd_error_get(&text, nullptr, nullptr);
  return text;
}

void cograd_abi_version(int32_t* major, int32_t* minor) noexcept {
  if (major != nullptr) *major = COGRAD_ABI_MAJOR;
  if (minor != nullptr) *minor = COGRAD_ABI_MINOR;
}

const char* cograd_version(void) noexcept { return COGRAD_VERSION_TEXT; }
