// Protobuf's wire format (protobuf.dev/programming-guides/encoding), as far as logs need it: what tensorboard.h and
// wandb_run.h write, and read again when a run resumes.
//
// A message is a sequence of fields, in any order. Each starts with the varint (number << 3) | type. Type 0 is a
// varint, type 1 is eight bytes, type 2 is a length followed by bytes, and type 5 is four bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out += static_cast<char>(value);
}

/// Return a field of a message. An integer of 0 is left out, as is usual in proto3.
inline std::string integer_field(std::uint64_t number, std::int64_t value) {
  return value == 0 ? "" : cat(varint(number << 3), varint(static_cast<std::uint64_t>(value)));
}
inline std::string bytes_field(std::uint64_t number, std::string_view bytes) {
  return cat(varint(number << 3 | 2), varint(bytes.size()), bytes);
}

/// Removes a varint from the front of `data`. Empty if it is incomplete.
inline std::optional<std::uint64_t> take_varint(std::string_view& data) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !data.empty(); shift += 7) {
    const std::uint64_t byte = byte_of(data.front());
    data.remove_prefix(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

struct ProtobufField {
  std::uint64_t number = 0;
  std::optional<std::uint64_t> value;  // of a varint
  std::string_view bytes;              // of all others
};

/// Removes a field from the front of `message`. Empty if there is no complete field of a known type.
inline std::optional<ProtobufField> take_field(std::string_view& message) {
  const auto key = take_varint(message);
  if (!key) return std::nullopt;
  ProtobufField field{*key >> 3, std::nullopt, {}};
  const std::uint64_t type = *key & 7;
  std::optional<std::uint64_t> bytes = type == 1 ? 8 : 4;
  if (type == 0) bytes = (field.value = take_varint(message)) ? std::optional<std::uint64_t>(0) : std::nullopt;
  if (type == 2) bytes = take_varint(message);
  if (!bytes || *bytes > message.size() || (type > 2 && type != 5)) return std::nullopt;
  field.bytes = message.substr(0, *bytes);
  message.remove_prefix(*bytes);
  return field;
}

}  // namespace mtl
