#include "device/attention_backend.h"

#include "base/enum_index.h"
#include "base/error.h"

namespace mtl {

AttentionBackend parse_attention_backend(std::string_view name) {
  if (name == "local") return AttentionBackend::unfused;
  const auto backend = enum_named<AttentionBackend>(kAttentionBackends, name);
  require(backend.has_value(), "no attention backend is named '", name, "'; choose ",
          join_or({kAttentionBackends.begin(), kAttentionBackends.end()}));
  return *backend;
}

}  // namespace mtl
