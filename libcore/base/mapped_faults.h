// Turns SIGBUS into an error when a mapped file becomes shorter or its disk fails.
//
//   read_mapped([&] { copy(file.bytes()); });   // throws Error(io) that names the file
//
// A page that cannot be read raises SIGBUS in the thread that reads it. Inside read_mapped the handler replaces the
// remaining mapping with zeros and the thread continues; at the end read_mapped throws, and the caller must discard
// what was read.
//
// For whole files and strided slices of models: read_mapped needs the handler of apps/cli/bus_error.h, and reports
// faults only at the end. The tokens of samples are read with pread instead (open_file.h).
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

namespace mtl {

/// While it exists, faults of this thread on mapped files are recorded.
class MappedReads {
 public:
  MappedReads();
  ~MappedReads();
  MappedReads(const MappedReads&) = delete;
  /// Throws Error(io) if this or another thread could not read a file that is still mapped.
  static void check();

 private:
  bool was_recording_;
};

/// Throws Error(io) if a file that was mapped with `bytes` bytes has fewer now. A file that ends within the last page
/// of its mapping raises no fault: the bytes beyond its end read as zeros.
void check_mapped_size(const std::string& path, std::size_t bytes);

/// Calls `read` on this thread and returns its result. Throws Error(io) after a fault, even if `read` itself threw.
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

/// For a SIGBUS handler: handles a fault in a mapped file inside read_mapped; true if the thread can continue.
bool take_mapped_fault(void* address);

// For MappedFile: the table of mapped addresses. When the table is full, further mappings are not protected.
void add_mapping(const void* data, std::size_t bytes, const std::string& path);
void remove_mapping(const void* data);

}  // namespace mtl
