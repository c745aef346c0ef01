#include "base/mapped_faults.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/files.h"

namespace mtl {

namespace {

/// A mapping. The signal handler reads the table without a lock, so `data` is set last and cleared first.
struct Mapping {
  std::atomic<std::uintptr_t> data{0};
  std::atomic<std::size_t> bytes{0};
  std::atomic<bool> is_lost{false};
  std::array<char, 512> path{};  // truncated if longer
};

constexpr std::size_t kMappings = 4096;
std::array<Mapping, kMappings> mappings;
std::atomic<std::size_t> used{0};  // everything from this index on is free
std::atomic<int> lost{0};
std::mutex table_mutex;

constinit thread_local bool is_recording = false;

constexpr const char* kFaultMessage =
    ": bus error: a token file, a model or a checkpoint was truncated while it was in use, or its disk failed; check "
    "the file and start again\n";

/// The handler's message. Prepared in advance, because a signal handler must not allocate memory.
char fault_message[512];
std::size_t fault_message_bytes = 0;

/// Handles a fault at `address` if that is in a mapped file and the thread is inside read_mapped(). Returns true if the
/// thread can continue.
bool take_mapped_fault(void* address) {
  if (!is_recording) return false;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t i = 0; i < used; ++i) {
    Mapping& mapping = mappings[i];
    const std::uintptr_t begin = mapping.data;
    const std::size_t bytes = mapping.bytes;
    if (begin == 0 || at < begin || at >= begin + bytes) continue;
    const std::uintptr_t end = (begin + bytes + page - 1) / page * page;
    void* first = static_cast<std::byte*>(address) - at % page;
    void* zeros = ::mmap(first, end - at / page * page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) return false;
    if (!mapping.is_lost.exchange(true)) ++lost;
    return true;
  }
  return false;
}

void handle_bus_error(int, siginfo_t* info, void*) {
  if (take_mapped_fault(info->si_addr)) return;
  (void)!::write(STDERR_FILENO, fault_message, fault_message_bytes);
  ::_exit(static_cast<int>(Exit::io));
}

}  // namespace

void explain_bus_errors(const std::string& program) {
  const std::string text = program.substr(0, 100) + kFaultMessage;
  fault_message_bytes = text.copy(fault_message, sizeof fault_message);
  struct sigaction action {};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void add_mapping(const void* data, std::size_t bytes, const std::string& path) {
  std::lock_guard lock(table_mutex);
  for (std::size_t i = 0; i < kMappings; ++i) {
    Mapping& mapping = mappings[i];
    if (mapping.data != 0) continue;
    mapping.bytes = bytes;
    mapping.is_lost = false;
    mapping.path[path.copy(mapping.path.data(), mapping.path.size() - 1)] = '\0';
    mapping.data = reinterpret_cast<std::uintptr_t>(data);
    if (i >= used) used = i + 1;
    return;
  }
}

void remove_mapping(const void* data) {
  std::lock_guard lock(table_mutex);
  for (std::size_t i = 0; i < used; ++i) {
    Mapping& mapping = mappings[i];
    if (mapping.data != reinterpret_cast<std::uintptr_t>(data)) continue;
    mapping.data = 0;
    if (mapping.is_lost.exchange(false)) --lost;
    return;
  }
}

MappedReads::MappedReads() : was_recording_(is_recording) { is_recording = true; }

MappedReads::~MappedReads() { is_recording = was_recording_; }

void check_mapped_size(const std::string& path, std::size_t bytes) {
  if (!file_exists(path)) return;
  const std::uint64_t now = file_size(path);
  if (now >= bytes) return;
  fail(Exit::io, path, " was truncated while it was read (", now, " bytes instead of ", bytes,
       "); restore it and start again");
}

void MappedReads::check() {
  if (lost == 0) return;
  std::string path;
  std::size_t bytes = 0;
  {
    std::lock_guard lock(table_mutex);
    for (std::size_t i = 0; i < used && path.empty(); ++i) {
      if (mappings[i].data == 0 || !mappings[i].is_lost) continue;
      path = mappings[i].path.data();
      bytes = mappings[i].bytes;
    }
  }
  if (path.empty()) return;
  check_mapped_size(path, bytes);
  fail(Exit::io, path, " cannot be read, because its disk reports an error; start again with an intact copy");
}

}  // namespace mtl
