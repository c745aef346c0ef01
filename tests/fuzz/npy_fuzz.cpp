// Reads arbitrary bytes as the header of an .npy file. Expects an error, or a header that is within the bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "data/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const mtl::FlatHeader header = mtl::read_npy_header({reinterpret_cast<const char*>(data), size});
    if (header.bytes > size || header.size < 0) std::abort();
    // What mtl writes for the same array, it reads again.
    const std::string written = mtl::npy_header(header.type, header.size);
    const mtl::FlatHeader again = mtl::read_npy_header(written);
    if (again.type != header.type || again.size != header.size || again.bytes != written.size()) std::abort();
  } catch (const mtl::Error& error) {
    if (error.code() != mtl::Exit::bad_data) throw;
  }
  return 0;
}
