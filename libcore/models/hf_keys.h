// Keys of config.json that mtl supports with only some of their values. tests/cli/hf_keys_without_effect.txt lists
// those that it need not read. tests/cli/transformers_long.sh walks over the keys of the installed transformers and
// fails on a key that is in neither list.
#pragma once

#include <span>
#include <string_view>

namespace mtl {

struct HfRefusedKey {
  std::string_view families;  // model_types, separated by spaces; "*" for all
  const char* key;
  const char* allowed;  // a JSON list of values; an absent key is always allowed
  const char* meaning;  // of the other values, to follow "mtl does not support"
};

std::span<const HfRefusedKey> hf_refused_keys();

/// True if `families`, in the form of HfRefusedKey::families, includes `model_type`.
bool includes_family(std::string_view families, std::string_view model_type);

}  // namespace mtl
