#include "device/attention_backend.h"

#include <algorithm>

#include "base/error.h"

namespace mtl {

const std::vector<std::string>& attention_backend_names() {
  static const std::vector<std::string> names{"auto", "flash", "tiles", "fused", "unfused", "local"};
  return names;
}

AttentionBackend parse_attention_backend(std::string_view name) {
  const std::vector<std::string>& names = attention_backend_names();
  const auto at = std::find(names.begin(), names.end(), name);
  require(at != names.end(), "no attention backend is named '", name,
          "'; choose auto, flash, tiles, fused, unfused or local");
  const auto index = at - names.begin();
  return index == 5 ? AttentionBackend::unfused : static_cast<AttentionBackend>(index);
}

}  // namespace mtl
