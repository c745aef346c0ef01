// Reading mapped files that become shorter, or whose disk fails: an error instead of SIGBUS.
//
//   read_mapped([&] { copy(file.bytes()); });   // throws Error(io) that names the file
//
// A page that cannot be read gives SIGBUS to the thread that reads it. Inside read_mapped the handler puts zeros in
// place of the rest of the mapping and the thread continues; at the end the error is thrown, and what was read is void.
//
// For whole files and strided slices of models. It needs the handler of apps/cli/bus_error.h, and the faults are known
// at the end only. The tokens of samples are read with pread instead (open_file.h).
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

namespace mtl {

/// While it lives, this thread's faults on mapped files are recorded.
class MappedReads {
 public:
  MappedReads();
  ~MappedReads();
  MappedReads(const MappedReads&) = delete;
  /// Throws Error(io) when a file that is still mapped could not be read, by this thread or another one.
  static void check();

 private:
  bool is_inner_;
};

/// Throws Error(io) when a file that was mapped with `bytes` bytes has fewer now. Within the last page of a mapping
/// that is not a fault: the bytes beyond the new end read as zeros.
void check_mapped_size(const std::string& path, std::size_t bytes);

/// Calls `read` on this thread and returns its result. A fault replaces the exception that it caused in `read`.
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

/// For a SIGBUS handler: true when the fault is in a mapped file, inside read_mapped, and the thread can continue.
bool take_mapped_fault(void* address);

// For MappedFile: which addresses are whose. A mapping that finds no room in the table is not protected.
void add_mapping(const void* data, std::size_t bytes, const std::string& path);
void remove_mapping(const void* data);

}  // namespace mtl
