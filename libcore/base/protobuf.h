// Protobuf's wire format (protobuf.dev/programming-guides/encoding), as far as logs and SentencePiece's models need it.
//
// A message is a sequence of fields, in any order. Each starts with the varint (number << 3) | type. Type 0 is a
// varint, type 1 is eight bytes, type 2 is a length followed by bytes, and type 5 is four bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
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

// The functions below remove what they return from the front of `message`. They throw Error(bad_data) if it is not
// there completely.

inline std::string_view take_bytes(std::string_view& message, std::uint64_t bytes) {
  if (bytes > message.size())
    fail(Exit::bad_data, "a field has ", bytes, " bytes, but only ", message.size(), " are left");
  const std::string_view taken = message.substr(0, bytes);
  message.remove_prefix(bytes);
  return taken;
}

inline std::uint64_t take_varint(std::string_view& message) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    const std::uint64_t byte = byte_of(take_bytes(message, 1)[0]);
    value |= (byte & 0x7F) << shift;  // the tenth byte has room for just one bit
    if (byte < 0x80) return value;
  }
  fail(Exit::bad_data, "a number has more than ten bytes");
}

struct ProtobufField {
  enum Type : unsigned { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };
  std::uint64_t number = 0;
  Type type = varint;
  std::uint64_t value = 0;      // of a varint
  std::string_view bytes = {};  // of all others

  bool is(std::uint64_t field_number, Type field_type) const { return number == field_number && type == field_type; }
};

inline ProtobufField take_field(std::string_view& message) {
  const std::uint64_t key = take_varint(message);
  ProtobufField field{.number = key >> 3, .type = ProtobufField::Type(key & 7)};
  if (field.number == 0 || field.number > 0x1FFFFFFF)
    fail(Exit::bad_data, "the field number ", field.number, " is out of range");
  switch (field.type) {
    case ProtobufField::varint:
      field.value = take_varint(message);
      return field;
    case ProtobufField::fixed64:
      field.bytes = take_bytes(message, 8);
      return field;
    case ProtobufField::fixed32:
      field.bytes = take_bytes(message, 4);
      return field;
    case ProtobufField::length:
      field.bytes = take_bytes(message, take_varint(message));
      return field;
  }
  fail(Exit::bad_data, "field ", field.number, " has the wire type ", unsigned{field.type});
}

}  // namespace mtl
