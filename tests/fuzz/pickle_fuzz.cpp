// Reads arbitrary bytes as a pickle. Expects an error, or values that can be visited.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "formats/pickle.h"
#include "formats/torch_globals.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  volatile std::size_t sum = 0;
  try {
    const mtl::Pickle pickle({reinterpret_cast<const char*>(data), size}, mtl::torch_global_use);
    for (std::size_t i = 0; i < pickle.count(); ++i) {
      const mtl::PickleValue value = pickle[i];
      sum = sum + value.describe().size() + value.size() + value.global().size();
      if (value.find("model")) sum = sum + 1;
    }
  } catch (const mtl::Error&) {
  }
  return 0;
}
