// Turns a SIGBUS into an Error if a mapped file is truncated or its disk fails.
//
//   read_mapped([&] { copy(file.bytes()); });   // throws an Error(io) whose message contains the file name
//
// A page that cannot be read raises SIGBUS in the thread that reads it. Inside read_mapped(), the signal handler
// replaces the mapping from this page to its end with zeros, and the thread continues. When the work is done,
// read_mapped() throws, and the caller must discard what it read.
//
// Meant for entire files and for strided slices of models. Needs the handler of explain_bus_errors(), and reports a
// fault only after all work is done. Samples' tokens are read with pread instead (open_file.h).
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

namespace mtl {

/// While it exists, faults in mapped files on its thread are recorded.
class MappedReads {
 public:
  MappedReads();
  ~MappedReads();
  MappedReads(const MappedReads&) = delete;
  /// Throws Error(io) if a file that is still mapped could not be read, on any thread.
  static void check();

 private:
  bool was_recording_;
};

/// Throws Error(io) if the file was mapped with `bytes` bytes and is shorter now: reading beyond its end within the
/// mapping's last page gives zeros instead of a fault. A file that was removed stays fully mapped.
void check_mapped_size(const std::string& path, std::size_t bytes);

/// Calls `read` on this thread and returns its result. Throws Error(io) if a mapped file could not be read; this
/// replaces any exception from `read`.
template <class Read>
auto read_mapped(const Read& read) {
  MappedReads reads;
  try {
    if constexpr (std::is_void_v<decltype(read())>) {
      read();
      MappedReads::check();
    } else {
      auto result = read();
      MappedReads::check();
      return result;
    }
  } catch (...) {
    MappedReads::check();
    throw;
  }
}

/// Installs a SIGBUS handler. Outside read_mapped(), it prints a message that begins with `program` and ends the
/// process with Exit::io.
void explain_bus_errors(const std::string& program);

// For MappedFile: adds or removes a mapping. Once the table is full, further mappings are not protected.
void add_mapping(const void* data, std::size_t bytes, const std::string& path);
void remove_mapping(const void* data);

}  // namespace mtl
