// Reads Python's pickle streams, protocols 0 to 5, as data: calls and imports nothing.
//
// A stream becomes a tree of values. A global (module and name) must be one that the caller allows; a call of a global,
// or an instance, becomes an object with the global, its arguments and its state. Values that a stream shares are
// shared here too, and lists, dictionaries and objects may contain themselves: code that walks the tree must bound its
// walk. The depth is bounded by kMaxPickleDepth for values that are complete when they are added to their parent.
//
// Memory is bounded by the stream: text and bytes are views of it (escaped text is decoded into a copy), an opcode
// makes at most two values, a memo index must be smaller than the offset of its opcode, and a stream has at most
// kMaxPickleValues values. A violation throws Error(bad_data) with the offset and the reason.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

inline constexpr std::size_t kMaxPickleValues = std::size_t{1} << 21;
inline constexpr int kMaxPickleDepth = 500;

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  big_integer,  // of more than 8 bytes, or in decimal of more than 18 digits
  real,
  text,
  bytes,
  list,
  tuple,
  set,
  dict,        // also the result of calling a GlobalUse::dictionary
  global,      // a module's attribute, not called
  object,      // a call of a global, or an instance
  persistent,  // a reference outside the stream, by its id
};

/// The permitted use of a global in a stream.
enum class GlobalUse : std::uint8_t {
  refused,
  value,       // name it
  function,    // call it: REDUCE
  type,        // make an instance and set its state: REDUCE, NEWOBJ, BUILD
  dictionary,  // like type, but the instance is read as a dict, and its state is dropped
};
using GlobalRule = GlobalUse (*)(std::string_view module, std::string_view name);

class Pickle;

/// One value, valid as long as its Pickle exists.
class PickleValue {
 public:
  PickleKind kind() const;
  bool is(PickleKind wanted) const { return kind() == wanted; }
  /// "a list", "argparse.Namespace": for messages.
  std::string describe() const;

  // Each throws Error(bad_data) when the value is of another kind.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_number() const;            // integer or real
  std::string_view as_text() const;    // text or bytes
  std::string_view as_digits() const;  // big_integer: two's complement, little-endian; protocol 0: decimal

  /// The number of items of a list, tuple, set or dict; 0 for all other kinds.
  std::size_t size() const;
  /// Item i < size() of a list, tuple or set.
  PickleValue at(std::size_t i) const;
  /// Key and value of entry i < size() of a dict. If keys are equal, Python keeps the last value.
  PickleValue key(std::size_t i) const;
  PickleValue value(std::size_t i) const;
  /// Returns the last value of a text key of a dict, or of an attribute in the state of an object; empty if absent.
  std::optional<PickleValue> find(std::string_view name) const;

  /// "module.name" of a global, or of an object's global; "" for all other kinds.
  std::string global() const;
  /// The arguments of an object: a tuple.
  PickleValue arguments() const;
  /// The state of an object; PickleKind::none without one.
  PickleValue state() const;
  /// The id of a persistent reference.
  PickleValue persistent_id() const;

  /// Identifies the value in its Pickle: shared values have the same number.
  std::uint32_t number() const { return number_; }

 private:
  friend class Pickle;
  PickleValue(const Pickle* pickle, std::uint32_t number) : pickle_(pickle), number_(number) {}
  const Pickle* pickle_;
  std::uint32_t number_;
};

class Pickle {
 public:
  /// Reads the first pickle of `stream`, which must outlive this object.
  Pickle(std::string_view stream, GlobalRule rule);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  PickleValue root() const { return {this, root_}; }
  /// The number of bytes of the pickle, including STOP.
  std::size_t length() const { return length_; }
  /// All values, in the order they were made.
  std::size_t count() const { return nodes_.size(); }
  PickleValue operator[](std::size_t number) const { return {this, static_cast<std::uint32_t>(number)}; }

 private:
  friend class PickleValue;
  friend class PickleMachine;
  struct Node {
    PickleKind kind = PickleKind::none;
    GlobalUse use = GlobalUse::refused;  // of a global, and of values made by calling it
    std::uint16_t depth = 1;
    std::uint32_t global = 0, arguments = 0, state = 0;  // persistent: the id is `arguments`
    union {
      std::int64_t integer = 0;
      double real;
    };
    std::string_view text;             // global: "module.name"
    std::vector<std::uint32_t> items;  // dict: key, value, key, value, ...
  };

  std::vector<Node> nodes_;
  std::deque<std::string> decoded_;  // text that is escaped in the stream, and names of globals
  std::uint32_t root_ = 0;
  std::size_t length_ = 0;
};

}  // namespace mtl
