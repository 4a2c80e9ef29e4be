// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/jit/text.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string_view>

#include "cograd/error.h"
#include "cuda/jit/folders.h"

namespace cograd::cuda {

namespace {

const std::string& folders() {
  static const std::string list = [] {
    const char* own = std::getenv("COGRAD_CUDA_TEXT");
    return own == nullptr ? library_folder() + "/cuda" : std::string(own);
  }();
  return list;
}

const std::string& file_text(const std::string& name) {
  static std::mutex mutex;
  static auto* files = new std::map<std::string, std::string>;
  const std::lock_guard lock(mutex);
  if (const auto it = files->find(name); it != files->end()) return it->second;
  std::istringstream list(folders());
  for (std::string folder; std::getline(list, folder, ':');) {
    folder.append("/").append(name);
    auto text = read_file(folder);
    if (text) return files->emplace(name, std::move(*text)).first->second;
  }
  detail::fail(ErrorKind::Runtime, "cuda: no file ", name, " in ", folders(),
               ", where the kernels' text is");
}

// Appends a text that stands in messages as `name`.
void append(std::string& out, std::string_view text, const std::string& name,
            std::set<std::string>& seen) {
  out += "#line 1 \"" + name + "\"\n";
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    ++number;
    at = end + 1;
    if (line.starts_with("#include \"")) {
      const size_t close = line.rfind('"');
      const size_t begin = line.find_last_of("/\"", close - 1) + 1;
      const std::string file(line.substr(begin, close - begin));
      if (!seen.insert(file).second) continue;
      append(out, file_text(file), file, seen);
      out += "#line " + std::to_string(number + 1) + " \"" + name + "\"\n";
    } else if (line != "#pragma once" && !line.starts_with("#include <")) {
      out.append(line).append("\n");
    } else {
      out += '\n';
    }
  }
}

}  // namespace

std::string with_includes(const std::string& text) {
  std::string out;
  std::set<std::string> seen;
  append(out, text, "program", seen);
  return out;
}

std::string program_text(const std::string& file) {
  return with_includes("#include \"" + file + "\"\n");
}

}  // namespace cograd::cuda
