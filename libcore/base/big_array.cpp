#include "base/big_array.h"

#include <sys/mman.h>

#include "base/error.h"

namespace mtl {

Pages::Pages(std::size_t bytes, std::string_view what) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail(Exit::failure, "no memory: ", human_bytes(static_cast<double>(bytes)), " for ", what);
  data_ = data;
  ::madvise(data, bytes, MADV_HUGEPAGE);  // a wish: without huge pages everything is only slower
}

Pages::~Pages() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace mtl
