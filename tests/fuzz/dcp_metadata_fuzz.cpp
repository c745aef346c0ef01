// Reads arbitrary bytes as the index of a distributed checkpoint. Expects an error, or tensors whose boxes cover them.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "formats/dcp_metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const mtl::DcpMetadata index = mtl::read_dcp_metadata({reinterpret_cast<const char*>(data), size});
    for (const auto& [key, tensor] : index.tensors) {
      std::int64_t elements = 0;
      for (const mtl::DcpBox& box : tensor.boxes) elements += box.slice.count();
      if (elements != mtl::whole_slice(tensor.shape).count()) __builtin_trap();
    }
  } catch (const mtl::Error&) {
  }
  return 0;
}
