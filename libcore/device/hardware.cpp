#include "device/hardware.h"

#include <cctype>

#include "base/str.h"

namespace mtl {

double Hardware::bound_ms(const Counters& work, DType dtype, bool tf32) const {
  return std::max(work.flops / (tflops(dtype, tf32) * 1e9), work.bytes / (dram_gbs * 1e6));
}

bool Hardware::is_compute_bound(const Counters& work, DType dtype, bool tf32) const {
  return work.flops / (tflops(dtype, tf32) * 1e9) > work.bytes / (dram_gbs * 1e6);
}

const std::vector<Hardware>& known_hardware() {
  // name, GB/s, TFLOP/s in 16 bits, TF32 and fp32, source
  static const std::vector<Hardware> known{{"A100", 2039, 312, 156, 19.5, "NVIDIA A100 80GB SXM data sheet"},
                                           {"A100-40GB", 1555, 312, 156, 19.5, "NVIDIA A100 40GB data sheet"},
                                           {"A100-PCIe", 1935, 312, 156, 19.5, "NVIDIA A100 80GB PCIe data sheet"},
                                           {"H100", 3350, 989.4, 494.7, 66.9, "NVIDIA H100 SXM data sheet"},
                                           {"H100-PCIe", 2000, 756, 378, 51.2, "NVIDIA H100 PCIe data sheet"},
                                           {"H200", 4800, 989.4, 494.7, 66.9, "NVIDIA H200 SXM data sheet"},
                                           {"B200", 8000, 2250, 1125, 75, "NVIDIA B200 data sheet"}};
  return known;
}

namespace {

/// Returns true if the first `word` in `text` starts a word: "gh200" is not an h200.
bool has_word(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  return at != std::string::npos && (at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0);
}

}  // namespace

const Hardware* find_hardware(std::string_view name) {
  const std::string given = lowered(name);
  const bool is_small = given.find("40gb") != std::string::npos,
             is_pcie = !is_small && given.find("pcie") != std::string::npos;
  if (has_word(given, "nvl")) return nullptr;  // NVL modules have different rates
  for (const Hardware& known : known_hardware()) {
    const std::size_t dash = known.name.find('-');
    const std::string variant = dash == std::string::npos ? "" : known.name.substr(dash + 1);
    const std::string expected = is_small ? "40GB" : is_pcie ? "PCIe" : "";
    if (variant == expected && has_word(given, lowered(known.name.substr(0, dash)))) return &known;
  }
  return nullptr;
}

}  // namespace mtl
