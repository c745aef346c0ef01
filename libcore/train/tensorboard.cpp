#include "train/tensorboard.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}

std::uint32_t mask(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

template <class T>
void append_little_endian(std::string& out, T value) {
  for (std::size_t at = 0; at < sizeof value; ++at) out += static_cast<char>(value >> (8 * at));
}

// protobuf: each field starts with (number << 3) | type. Type 0 is a varint, type 1 is eight bytes, type 2 is a length
// followed by bytes, and type 5 is four bytes.
void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, int number, int type) { out += static_cast<char>((number << 3) | type); }

void append_integer(std::string& out, int number, std::int64_t value) {
  append_key(out, number, 0);
  append_varint(out, static_cast<std::uint64_t>(value));
}

void append_bytes(std::string& out, int number, std::string_view bytes) {
  append_key(out, number, 2);
  append_varint(out, bytes.size());
  out += bytes;
}

/// Serializes wall_time and step, which every event starts with.
std::string event_head(double wall_time, std::int64_t step) {
  std::uint64_t bits;
  std::memcpy(&bits, &wall_time, sizeof bits);
  std::string out;
  append_key(out, 1, 1);
  append_little_endian(out, bits);
  if (step != 0) append_integer(out, 2, step);
  return out;
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns an unused name. Runs that start in the same second have different process ids in the name, and files from
/// one process have different numbers.
std::string event_path(const std::string& directory) {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  std::string stem = format("%s/events.out.tfevents.%010lld.%s.%d", directory.c_str(),
                            static_cast<long long>(wall_time()), host, static_cast<int>(::getpid()));
  int number = 0;
  while (file_exists(cat(stem, ".", number))) ++number;
  return cat(stem, ".", number);
}

LogFile create(const std::string& directory) {
  make_directories(directory);
  return LogFile(event_path(directory));
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_crc_table();
  std::uint32_t crc = ~0u;
  for (char byte : data) crc = (crc >> 8) ^ kTable[(crc ^ byte_of(byte)) & 0xff];
  return ~crc;
}

std::string tensorboard_record(std::string_view data) {
  std::string out;
  append_little_endian(out, std::uint64_t{data.size()});
  append_little_endian(out, mask(crc32c(out)));
  out += data;
  append_little_endian(out, mask(crc32c(data)));
  return out;
}

std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    auto single = float(value);
    std::uint32_t bits;
    std::memcpy(&bits, &single, sizeof bits);
    std::string item;
    append_bytes(item, 1, tag);
    append_key(item, 2, 5);
    append_little_endian(item, bits);
    append_bytes(summary, 1, item);
  }
  std::string out = event_head(wall_time, step);
  append_bytes(out, 5, summary);
  return out;
}

EventFile::EventFile(const std::string& directory) : file_(create(directory)) {
  std::string version = event_head(wall_time(), 0);
  append_bytes(version, 3, "brain.Event:2");
  try {
    file_.write(tensorboard_record(version));
  } catch (const Error&) {
    std::error_code ignored;  // we report the first error
    fs::remove(path(), ignored);
    throw;
  }
}

void EventFile::add(const std::vector<std::pair<std::int64_t, Scalars>>& steps) {
  std::string records;
  for (const auto& [step, scalars] : steps) records += tensorboard_record(scalars_event(wall_time(), step, scalars));
  file_.write(records);
}

}  // namespace mtl
