#include "formats/pickle_writer.h"

#include <bit>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

void PickleWriter::integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= INT32_MIN && value <= INT32_MAX)
    out_ += "J" + to_little_endian(bits, 4);
  else
    out_ += cat("\x8a", "\x08", to_little_endian(bits, 8));
}

void PickleWriter::number(double value) {
  const std::string bytes = to_little_endian(std::bit_cast<std::uint64_t>(value), 8);
  out_ += 'G';
  out_.append(bytes.rbegin(), bytes.rend());
}

void PickleWriter::text(std::string_view value) {
  require(value.size() <= UINT32_MAX, "a text of ", value.size(), " bytes in a pickle of protocol 2");
  out_ += "X" + to_little_endian(value.size(), 4);
  out_ += value;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  out_ += cat("c", module, "\n", name, "\n");
}

}  // namespace mtl
