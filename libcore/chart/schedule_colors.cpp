#include "chart/schedule_colors.h"

#include <cmath>

#include "base/str.h"

namespace mtl {

std::string shade(const Rgb& strong, int chunk, int chunks) {
  double pale = chunks == 1 ? 0 : 0.65 * chunk / (chunks - 1);
  std::string out = "#";
  for (int part : strong) out += format("%02x", static_cast<unsigned>(std::lround(part + (255 - part) * pale)));
  return out;
}

}  // namespace mtl
