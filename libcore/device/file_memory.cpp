#include "device/file_memory.h"

#include <sys/mman.h>

#include "base/error.h"

namespace mtl {

FileMemory::FileMemory(const std::string& folder, std::size_t bytes)
    : file_("--offload-optimizer " + folder, folder, bytes), bytes_(bytes) {
  void* addresses = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED)
    fail(Exit::failure, "cannot reserve ", human_bytes(bytes), " of addresses for the files of --offload-optimizer; ",
         "raise the limit of address space (ulimit -v)");
  data_ = static_cast<std::byte*>(addresses);
}

FileMemory::~FileMemory() { ::munmap(data_, bytes_); }

}  // namespace mtl
