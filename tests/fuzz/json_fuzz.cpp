// Parses arbitrary bytes as JSON. Expects an error, or a value whose dump() parses and dumps to the same text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    mtl::Json value = mtl::Json::parse({reinterpret_cast<const char*>(data), size});
    std::string text = value.dump();
    if (!mtl::has_lone_surrogate(text) && mtl::Json::parse(text).dump() != text) std::abort();
  } catch (const mtl::Error&) {
  }
  return 0;
}
