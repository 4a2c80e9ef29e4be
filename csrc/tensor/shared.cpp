// SPDX-License-Identifier: BSD-3-Clause
// Storages in anonymous files (memfd), and a table that ensures that a file is mapped only once.
#include "tensor/shared.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace cograd {

namespace {

using FileId = std::pair<dev_t, ino_t>;

struct Mapping {
  FileId id;
  void* data = nullptr;
  size_t size = 0;
  int fd = -1;
  int64_t users = 0;  // number of storages; guarded by the table's mutex
};

// Mappings whose file descriptor was kept, as the same file may be opened again. The table holds
// mappings, not storages, because another thread may be dropping the last reference on a storage.
struct Table {
  std::mutex mutex;
  std::map<FileId, Mapping*> kept;
};
Table& table() {
  static Table* t = [] {
    auto* made = new Table;  // leaked: storages may outlive static destruction
    pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); },
                   [] { new (&table().mutex) std::mutex; });
    return made;
  }();
  return *t;
}

void drop_mapping(void* context) {
  auto* m = static_cast<Mapping*>(context);
  {
    const std::lock_guard lock(table().mutex);
    if (--m->users > 0) return;
    if (m->fd >= 0) table().kept.erase(m->id);
  }
  munmap(m->data, m->size);
  if (m->fd >= 0) close(m->fd);
  delete m;
}

[[noreturn]] void fail_system(const char* what, int64_t nbytes, int error) {
  const bool files = error == EMFILE || error == ENFILE;
  const bool memory = error == ENOMEM || error == ENOSPC;
  detail::fail(memory ? ErrorKind::Memory : ErrorKind::Runtime, "shared memory: ", what, " of ",
               nbytes, " bytes failed: ", std::strerror(error),
               files ? "; every shared storage that may be sent on holds a file descriptor, see "
                       "`ulimit -n`"
                     : "");
}

struct File {
  int fd = -1;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

// Maps the file. If `file` is not null, the mapping takes over its descriptor and joins the table.
Storage* map_file(int fd, int64_t nbytes, bool fill, FileId id, File* file) {
  auto m = std::make_unique<Mapping>();
  m->id = id;
  m->size = static_cast<size_t>(std::max<int64_t>(nbytes, 1));
  m->users = 1;
  m->data =
      mmap(nullptr, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | (fill ? MAP_POPULATE : 0), fd, 0);
  if (m->data == MAP_FAILED) fail_system("mapping", nbytes, errno);
  try {
    if (file != nullptr) {
      const std::lock_guard lock(table().mutex);
      table().kept.emplace(id, m.get());
    }
    if (file != nullptr) m->fd = std::exchange(file->fd, -1);
    Mapping* kept = m.release();
    return Storage::wrap(kept->data, nbytes, drop_mapping, kept, false);
  } catch (...) {
    if (m != nullptr) munmap(m->data, m->size);
    throw;
  }
}

struct stat file_state(int fd, int64_t nbytes) {
  struct stat st{};
  if (fstat(fd, &st) != 0) fail_system("opening", nbytes, errno);
  return st;
}

// Returns another storage over an existing mapping of the file, or null.
Storage* find_mapping(FileId id, int64_t nbytes) {
  const std::lock_guard lock(table().mutex);
  const auto it = table().kept.find(id);
  if (it == table().kept.end() || it->second->size < static_cast<size_t>(nbytes)) return nullptr;
  Storage* s = Storage::wrap(it->second->data, nbytes, drop_mapping, it->second, false);
  ++it->second->users;
  return s;
}

}  // namespace

Storage* shared_make(int64_t nbytes) {
  COGRAD_CHECK(nbytes >= 0, "shared memory: expected a size, got ", nbytes, " bytes");
  File file;
  file.fd = memfd_create("cograd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file.fd < 0) fail_system("making a file", nbytes, errno);
  if (ftruncate(file.fd, std::max<int64_t>(nbytes, 1)) != 0)
    fail_system("reserving", nbytes, errno);
  // The seals keep every process from shrinking the file while another one maps it.
  fcntl(file.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  const struct stat st = file_state(file.fd, nbytes);
  return map_file(file.fd, nbytes, false, {st.st_dev, st.st_ino}, &file);
}

Storage* shared_open(int fd, int64_t nbytes, bool keep, bool fill) {
  const struct stat st = file_state(fd, nbytes);
  COGRAD_CHECK(nbytes >= 0 && nbytes <= st.st_size, "shared memory: a storage of ", nbytes,
               " bytes does not fit into a file of ", st.st_size);
  const FileId id{st.st_dev, st.st_ino};
  if (Storage* s = find_mapping(id, nbytes)) return s;
  if (!keep) return map_file(fd, nbytes, fill, id, nullptr);
  File own;
  own.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own.fd < 0) fail_system("keeping the file", nbytes, errno);
  return map_file(own.fd, nbytes, fill, id, &own);
}

bool is_shared(const Storage* s) noexcept {
  if (s->kind == 3) s = static_cast<const Storage*>(s->context);
  return s->deleter == drop_mapping;
}

int shared_fd(const Storage* s) noexcept {
  return s->deleter == drop_mapping ? static_cast<const Mapping*>(s->context)->fd : -1;
}

void move_to_shared(std::span<TensorImpl* const> users) {
  Storage* old = users.front()->storage;
  if (is_shared(old)) return;
  Storage* fresh = shared_make(old->nbytes);
  std::memcpy(fresh->data, old->data, static_cast<size_t>(old->nbytes));
  fresh->version.store(old->version.load(std::memory_order_relaxed), std::memory_order_relaxed);
  fresh->born = old->born;
  const char* from = static_cast<char*>(old->data);
  for (TensorImpl* p : users) {
    p->data = static_cast<char*>(fresh->data) + (p->data - from);
    p->storage = fresh;
    fresh->retain();
    old->release();
  }
  fresh->release();
}

}  // namespace cograd
