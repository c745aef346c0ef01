// The stack machine that executes a pickle, restricted to the opcodes that build data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/pickle.h"
#include "formats/tensor_file.h"

namespace mtl {

class PickleMachine {
 public:
  PickleMachine(Pickle& pickle, std::string_view stream, GlobalRule rule, std::string_view remedy);
  /// Runs until STOP.
  void run();

 private:
  using Id = std::uint32_t;
  using Node = Pickle::Node;
  /// The first nodes in every pickle. Each is a singleton, shared by all uses of its value.
  enum Shared : Id { kNone, kFalse, kTrue, kEmptyTuple };

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(Exit::bad_data, "pickle, byte ", opcode_at_, ": ", parts...);
  }
  /// Rejects a stream that no pickler writes.
  template <class... Parts>
  [[noreturn]] void refuse_damaged(const Parts&... parts) const {
    refuse(parts..., kDamagedRemedy);
  }
  /// Rejects a stream that has more than tensors and plain values.
  template <class... Parts>
  [[noreturn]] void refuse_code(const Parts&... parts) const {
    refuse(parts..., remedy_);
  }

  // Each of these functions executes `opcode` if it belongs to its group, and otherwise calls the next function.
  void run_number(unsigned char opcode);
  void run_text(unsigned char opcode);
  void run_container(unsigned char opcode);
  void run_stack(unsigned char opcode);
  void run_object(unsigned char opcode);
  [[noreturn]] void refuse_opcode(unsigned char opcode) const;

  std::string_view take(std::uint64_t bytes);
  std::uint64_t take_unsigned(int bytes);
  /// Consumes a line, and returns it without the newline.
  std::string_view take_line();

  Id make(Node node);
  void push(Id id);
  Id pop();
  Id top() const;
  /// Removes the last mark, and the values above it, from the stack. Returns the values.
  std::vector<Id> pop_to_mark();
  void push_scalar(PickleKind kind, std::int64_t value);
  void push_text(PickleKind kind, std::string_view text, bool is_unicode);
  void push_decimal(std::string_view digits);
  void push_long(std::string_view digits);
  void push_items(PickleKind kind, std::vector<Id> items);
  void push_tuple(std::size_t items);
  void push_global(std::string_view module, std::string_view name);
  void push_persistent(Id id);

  void add_items(Id target, const std::vector<Id>& items, PickleKind kind);
  /// Raises the depth of `parent` to at least one more than the depth of `child`. Rejects a depth above
  /// kMaxPickleDepth.
  void deepen(Node& parent, Id child);
  void remember(std::uint64_t index);
  void recall(std::uint64_t index);
  void call(Id callee, Id arguments, bool is_instance);
  void call_reconstructor(Id arguments);
  void push_dictionary(Id callee, Id arguments);
  void build();

  Pickle& pickle_;
  std::string_view stream_;
  GlobalRule rule_;
  std::string_view remedy_;
  std::size_t most_values_;
  std::size_t at_ = 0, opcode_at_ = 0;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;  // stack size at each MARK
  std::vector<Id> memo_;            // by index; kAbsentValue where unused
  std::size_t memo_size_ = 0;       // number of indices in use; also the index for the next MEMOIZE
  std::size_t copied_ = 0;          // how many items calls have copied into dicts
};

}  // namespace mtl
