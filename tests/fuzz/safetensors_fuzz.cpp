// Opens arbitrary bytes as a safetensors file. Expects an error, or tensors whose data can be read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int memory = ::memfd_create("input", 0);
  if (::ftruncate(memory, 0) != 0 || ::pwrite(memory, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  volatile unsigned sum = 0;
  try {
    mtl::SafetensorsFile file(mtl::cat("/proc/self/fd/", memory));
    for (const mtl::StoredTensor& tensor : file.tensors()) {
      for (std::byte byte : file.data(tensor)) sum = sum + std::to_integer<unsigned>(byte);
    }
  } catch (const mtl::Error&) {
  }
  return 0;
}
