// Reads Python's pickle streams, protocols 0 to 5, as data: never calls a function and never imports a module.
//
// A stream becomes a tree of values. A global (module and name) must be one that the caller allows. A call to a global,
// or an instance of a class, becomes an object that contains the global, its arguments and its state. Values that are
// shared in the stream are shared in the tree. Lists, dicts and objects may contain themselves, so code that walks the
// tree must limit its depth. (kMaxPickleDepth limits the depth only of values that are complete when the stream adds
// them to their parent.)
//
// Memory use is bounded by the size of the stream. Text and bytes are views of the stream, except that escaped text is
// decoded into a copy. An opcode creates at most two values, a memo index must be smaller than the offset of the opcode
// that sets it, and a stream has at most kMaxPickleValues values, or one for every kPickleBytesPerValue bytes.
// Violations throw Error(bad_data) with the offset and the reason.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

inline constexpr std::size_t kMaxPickleValues = std::size_t{1} << 21, kPickleBytesPerValue = 4;
inline constexpr int kMaxPickleDepth = 500;

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  big_integer,  // longer than 8 bytes or, in decimal, 18 digits
  real,
  text,
  bytes,
  list,
  tuple,
  set,
  dict,        // also the result of calling a GlobalUse::dictionary
  global,      // a module's attribute, not called
  object,      // a call to a global, or an instance
  persistent,  // a reference, by id, to an object outside the stream
};

/// What a stream may do with a global.
enum class GlobalUse : std::uint8_t {
  refused,
  value,       // refer to it by name
  function,    // call it (REDUCE)
  type,        // make an instance and set its state (REDUCE, NEWOBJ, BUILD)
  dictionary,  // like type, but we read the instance as a dict and drop its state
};
using GlobalRule = GlobalUse (*)(std::string_view module, std::string_view name);

/// What follows in a message about a global that the rule does not allow: in a file that the user can save as tensors
/// alone, and in a checkpoint, which another program wrote.
inline constexpr std::string_view kTensorsRemedy =
    ", which mtl does not allow in a file of tensors; save only the tensors, with torch.save(model.state_dict(), PATH)";
inline constexpr std::string_view kCheckpointRemedy =
    ", which mtl does not allow in a distributed checkpoint; load the checkpoint with the program that wrote it, and "
    "save it without this class or function";

class Pickle;

/// A value. Valid as long as its Pickle exists.
class PickleValue {
 public:
  PickleKind kind() const;
  bool is(PickleKind wanted) const { return kind() == wanted; }
  /// Describes the value in messages: "a list", "an instance of argparse.Namespace".
  std::string describe() const;

  // These functions throw Error(bad_data) if the value is of another kind.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_number() const;            // integer or real
  std::string_view as_text() const;    // text or bytes
  std::string_view as_digits() const;  // big_integer: little-endian two's complement; in protocol 0, decimal

  /// Returns the number of items in a list, tuple, set or dict, or 0 for all other kinds.
  std::size_t size() const;
  /// Returns item `i` of a list, tuple or set. `i` must be less than size().
  PickleValue at(std::size_t i) const;
  /// Return the key and value of entry `i` in a dict. `i` must be less than size(). If keys are equal, Python keeps the
  /// last value.
  PickleValue key(std::size_t i) const;
  PickleValue value(std::size_t i) const;
  /// Looks up a text key in a dict, or an attribute in an object's state. If `name` occurs more than once, returns the
  /// last value. Empty if it is absent.
  std::optional<PickleValue> find(std::string_view name) const;
  /// Looks up an integer key in a dict in the same way.
  std::optional<PickleValue> find(std::int64_t number) const;
  /// Like find(), but also empty if the value is None.
  std::optional<PickleValue> find_not_none(std::string_view name) const;

  /// Returns "module.name" for a global, or for the global that an object was made from. Returns "" for all other
  /// kinds.
  std::string global() const;
  /// Returns an object's arguments, which are a tuple.
  PickleValue arguments() const;
  /// Returns an object's state, or a value of kind PickleKind::none if it has none.
  PickleValue state() const;
  /// Returns a persistent reference's id.
  PickleValue persistent_id() const;

  /// Returns a number that identifies the value within its Pickle. All uses of a shared value have the same number.
  std::uint32_t number() const { return number_; }

 private:
  friend class Pickle;
  PickleValue(const Pickle* pickle, std::uint32_t number) : pickle_(pickle), number_(number) {}

  template <class IsKey>
  std::optional<PickleValue> find_key(const IsKey& is_key) const;
  const Pickle* pickle_;
  std::uint32_t number_;
};

/// Returns value->find(name). Empty if there is no value.
inline std::optional<PickleValue> find_in(const std::optional<PickleValue>& value, std::string_view name) {
  return value ? value->find(name) : std::nullopt;
}

class Pickle {
 public:
  /// Reads the first pickle in `stream`, which the caller must keep alive. `remedy` ends the message if the stream does
  /// what the rule does not allow.
  Pickle(std::string_view stream, GlobalRule rule, std::string_view remedy = kTensorsRemedy);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  PickleValue root() const { return {this, root_}; }
  /// Returns the length of the pickle in bytes, including STOP.
  std::size_t length() const { return length_; }
  /// count() returns the number of values; operator[] returns them in the order they were made.
  std::size_t count() const { return nodes_.size(); }
  PickleValue operator[](std::size_t number) const { return {this, static_cast<std::uint32_t>(number)}; }

 private:
  friend class PickleValue;
  friend class PickleMachine;
  struct Node {
    PickleKind kind = PickleKind::none;
    GlobalUse use = GlobalUse::refused;  // for a global, or for a value made by calling one
    std::uint16_t depth = 1;
    std::uint32_t global = 0, arguments = 0, state = 0;  // persistent: the id is `arguments`
    std::int64_t integer = 0;                            // real: the bits of the double
    std::string_view text = {};                          // global: "module.name"
    std::vector<std::uint32_t> items = {};               // dict: key, value, key, value, ...
  };

  std::deque<Node> nodes_;           // a vector would need three times the space while it grows
  std::deque<std::string> decoded_;  // decoded copies of escaped text, and global names
  std::uint32_t root_ = 0;
  std::size_t length_ = 0;
};

}  // namespace mtl
