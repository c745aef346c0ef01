// Reads arbitrary bytes as a possibly compressed file. Expects an error or contents, in bounded memory. Read size and
// thread count must not change the result.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "text/decompress.h"

namespace {

constexpr std::size_t kMaxContent = std::size_t{4} << 20;  // decompression bombs contain more

/// Returns the length and hash of the contents, limited to kMaxContent bytes, or "error".
std::string read_some(const std::string& path, std::size_t portion, int threads) {
  std::string buffer(portion, '\0');
  mtl::Hasher content;
  std::size_t total = 0;
  try {
    auto source = mtl::open_input(path, threads);
    while (std::size_t got = source->read(buffer.data(), std::min(portion, kMaxContent - total))) {
      if (got > portion) std::abort();
      content.update(buffer.data(), got);
      if ((total += got) == kMaxContent) break;
    }
  } catch (const mtl::Error&) {
    return "error";
  }
  return mtl::cat(total, " ", content.digest());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int memory = ::memfd_create("input", 0);
  if (::ftruncate(memory, 0) != 0 || ::pwrite(memory, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  std::string path = mtl::cat("/proc/self/fd/", memory);
  if (read_some(path, 1 << 20, 1) != read_some(path, 4099, 3)) std::abort();
  return 0;
}
