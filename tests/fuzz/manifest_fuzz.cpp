// Parses arbitrary bytes as a checkpoint's manifest. Expects an error, or a manifest that survives a round trip.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "ckpt/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    mtl::Manifest manifest = mtl::parse_manifest({reinterpret_cast<const char*>(data), size}, mtl::ChecksumCheck::skip);
    std::string text = mtl::manifest_text(manifest);
    if (mtl::manifest_text(mtl::parse_manifest(text)) != text) std::abort();
  } catch (const mtl::Error&) {
  }
  return 0;
}
