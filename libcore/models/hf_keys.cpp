#include "models/hf_keys.h"

#include "base/str.h"

namespace mtl {

namespace {

constexpr HfRefusedKey kRefusedKeys[] = {
#define HF_REFUSED(families, key, allowed, meaning) {families, key, allowed, meaning},
#define HF_NO_EFFECT(families, key, why)
#include "models/hf_keys.inc"
#undef HF_REFUSED
#undef HF_NO_EFFECT
};

}  // namespace

std::span<const HfRefusedKey> hf_refused_keys() { return kRefusedKeys; }

bool includes_family(std::string_view families, std::string_view model_type) {
  return families == "*" || cat(" ", families, " ").find(cat(" ", model_type, " ")) != std::string::npos;
}

}  // namespace mtl
