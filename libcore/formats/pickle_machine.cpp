#include "formats/pickle_machine.h"

#include <algorithm>

#include "base/json_cursor.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace mtl {

namespace {

constexpr std::uint32_t kAbsentValue = UINT32_MAX;
constexpr std::size_t kLongestName = 200;      // bytes in a module or global name
constexpr std::size_t kLongestLine = 1 << 20;  // bytes in an argument that ends with a newline

}  // namespace

Pickle::Pickle(std::string_view stream, GlobalRule rule, std::string_view remedy) {
  PickleMachine(*this, stream, rule, remedy).run();
}

PickleMachine::PickleMachine(Pickle& pickle, std::string_view stream, GlobalRule rule, std::string_view remedy)
    : pickle_(pickle),
      stream_(stream),
      rule_(rule),
      remedy_(remedy),
      most_values_(std::max(kMaxPickleValues, stream.size() / kPickleBytesPerValue)) {
  for (PickleKind kind : {PickleKind::none, PickleKind::boolean, PickleKind::boolean, PickleKind::tuple})
    make({.kind = kind});
  pickle_.nodes_[kTrue].integer = 1;
}

void PickleMachine::run() {
  while (true) {
    opcode_at_ = at_;
    if (at_ == stream_.size()) refuse_damaged("the stream ends without the opcode STOP");
    const unsigned char opcode = byte_of(stream_[at_++]);
    if (opcode == '.') break;
    run_number(opcode);
  }
  pickle_.root_ = pop();
  pickle_.length_ = at_;
}

std::string_view PickleMachine::take(std::uint64_t bytes) {
  if (bytes > stream_.size() - at_)
    refuse_damaged("the opcode needs ", bytes, " bytes, but only ", stream_.size() - at_, " follow");
  const std::string_view out = stream_.substr(at_, bytes);
  at_ += bytes;
  return out;
}

std::uint64_t PickleMachine::take_unsigned(int bytes) { return from_little_endian(take(bytes)); }

std::string_view PickleMachine::take_line() {
  const std::size_t end = stream_.substr(at_, kLongestLine).find('\n');
  if (end == std::string_view::npos)
    refuse_damaged("the line does not end within ", kLongestLine, " bytes or before the end of the stream");
  const std::string_view line = take(end);
  ++at_;
  return line;
}

PickleMachine::Id PickleMachine::make(Node node) {
  if (pickle_.nodes_.size() == most_values_)
    refuse("the stream has more than ", most_values_, " values, the most that mtl reads in a stream of its size");
  pickle_.nodes_.push_back(std::move(node));
  return static_cast<Id>(pickle_.nodes_.size() - 1);
}

void PickleMachine::push(Id id) {
  if (stack_.size() == most_values_) refuse_damaged("the stack has more than ", most_values_, " values");
  stack_.push_back(id);
}

PickleMachine::Id PickleMachine::top() const {
  if (stack_.size() == (marks_.empty() ? 0 : marks_.back()))
    refuse_damaged("the opcode needs a value, but the stack is empty");
  return stack_.back();
}

PickleMachine::Id PickleMachine::pop() {
  const Id id = top();
  stack_.pop_back();
  return id;
}

std::vector<PickleMachine::Id> PickleMachine::pop_to_mark() {
  if (marks_.empty()) refuse_damaged("the opcode needs a mark, but there is none");
  std::vector<Id> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return items;
}

void PickleMachine::push_scalar(PickleKind kind, std::int64_t value) { push(make({.kind = kind, .integer = value})); }

void PickleMachine::push_text(PickleKind kind, std::string_view text, bool is_unicode) {
  if (is_unicode && find_invalid_utf8(text) != std::string_view::npos) refuse_damaged("the text is not UTF-8");
  push(make({.kind = kind, .text = text}));
}

/// Pushes a little-endian two's complement integer of any length.
void PickleMachine::push_long(std::string_view digits) {
  if (digits.size() > 8) return push_text(PickleKind::big_integer, digits, false);
  std::uint64_t value = digits.empty() || byte_of(digits.back()) < 0x80 ? 0 : ~std::uint64_t{0};
  for (std::size_t i = digits.size(); i-- > 0;) value = value << 8 | byte_of(digits[i]);
  push_scalar(PickleKind::integer, static_cast<std::int64_t>(value));
}

void PickleMachine::push_decimal(std::string_view digits) {
  if (!digits.empty() && digits.back() == 'L') digits.remove_suffix(1);
  const std::string_view magnitude = digits.substr(starts_with(digits, "-") ? 1 : 0);
  if (magnitude.size() > 18 && magnitude.find_first_not_of("0123456789") == std::string_view::npos)
    return push_text(PickleKind::big_integer, digits, false);
  const std::optional<std::int64_t> value = parse_int(digits);
  if (!value) refuse_damaged("'", printable_text(digits.substr(0, 40)), "' is not a 64-bit integer");
  push_scalar(PickleKind::integer, *value);
}

void PickleMachine::deepen(Node& parent, Id child) {
  const int depth = std::max<int>(parent.depth, pickle_.nodes_[child].depth + 1);
  if (depth > kMaxPickleDepth)
    refuse("values are nested more than ", kMaxPickleDepth, " deep, the most that mtl reads");
  parent.depth = static_cast<std::uint16_t>(depth);
}

void PickleMachine::push_items(PickleKind kind, std::vector<Id> items) {
  if (kind == PickleKind::dict && items.size() % 2 != 0) refuse_damaged("the dict has a key without a value");
  Node node{.kind = kind};
  for (Id item : items) deepen(node, item);
  node.items = std::move(items);
  push(make(std::move(node)));
}

void PickleMachine::push_tuple(std::size_t items) {
  std::vector<Id> values(items);
  for (std::size_t i = items; i-- > 0;) values[i] = pop();
  push_items(PickleKind::tuple, std::move(values));
}

void PickleMachine::add_items(Id target, const std::vector<Id>& items, PickleKind kind) {
  Node& node = pickle_.nodes_[target];
  if (node.kind != kind) refuse_damaged("the opcode adds an item to ", pickle_[target].describe());
  if (kind == PickleKind::dict && items.size() % 2 != 0) refuse_damaged("the dict has a key without a value");
  for (Id item : items) deepen(node, item);
  node.items.insert(node.items.end(), items.begin(), items.end());
}

/// Writers number memo entries consecutively from 0 or 1, and each entry takes at least one byte of the stream. So a
/// valid index is smaller than the opcode's offset.
void PickleMachine::remember(std::uint64_t index) {
  if (index >= opcode_at_) refuse_damaged("memo index ", index, " is too large for its offset in the stream");
  if (index >= memo_.size()) memo_.resize(index + 1, kAbsentValue);
  if (memo_[index] == kAbsentValue) ++memo_size_;
  memo_[index] = top();
}

void PickleMachine::recall(std::uint64_t index) {
  if (index >= memo_.size() || memo_[index] == kAbsentValue) refuse_damaged("memo index ", index, " was never stored");
  push(memo_[index]);
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
  const auto printable = [](std::string_view text) { return printable_text(text.substr(0, kLongestName)); };
  const GlobalUse use = std::max(module.size(), name.size()) > kLongestName ? GlobalUse::refused : rule_(module, name);
  if (use == GlobalUse::refused) refuse_code("the stream uses '", printable(module), ".", printable(name), "'");
  pickle_.decoded_.push_back(cat(module, ".", name));
  push(make({.kind = PickleKind::global, .use = use, .text = pickle_.decoded_.back()}));
}

void PickleMachine::push_persistent(Id id) {
  Node node{.kind = PickleKind::persistent, .arguments = id};
  deepen(node, id);
  push(make(std::move(node)));
}

/// In protocols 0 and 1, copyreg._reconstructor(type, base, state of the base) creates an instance.
void PickleMachine::call_reconstructor(Id arguments) {
  const std::vector<Id>& items = pickle_.nodes_[arguments].items;
  if (items.size() != 3) refuse_damaged("_reconstructor has ", items.size(), " arguments instead of 3");
  const Id type = items[0];
  call(type, kEmptyTuple, true);
}

/// Pushes the dict that a call to OrderedDict(), OrderedDict([(key, value), ...]) or defaultdict(type) returns.
void PickleMachine::push_dictionary(Id callee, Id arguments) {
  Node node{.kind = PickleKind::dict, .use = GlobalUse::dictionary, .global = callee};
  for (Id argument : pickle_.nodes_[arguments].items) {
    const Node& source = pickle_.nodes_[argument];
    if (source.kind == PickleKind::global || source.kind == PickleKind::none)
      continue;  // the argument of defaultdict()
    if (source.kind != PickleKind::list && source.kind != PickleKind::dict)
      refuse_damaged("a dict cannot be made from ", pickle_[argument].describe());
    for (Id item : source.items) {
      if (source.kind == PickleKind::dict) {
        deepen(node, item);
        node.items.push_back(item);
        continue;
      }
      const Node& pair = pickle_.nodes_[item];
      const bool is_pair = pair.items.size() == 2 && (pair.kind == PickleKind::list || pair.kind == PickleKind::tuple);
      if (!is_pair) refuse_damaged("a dict cannot be made from ", pickle_[item].describe(), " that is not a pair");
      for (Id key_or_value : pair.items) {
        deepen(node, key_or_value);
        node.items.push_back(key_or_value);
      }
    }
    // Each call copies its arguments' items. Without a limit, many calls that share an argument could use far more
    // memory than the stream.
    copied_ += node.items.size();
    if (copied_ > stream_.size()) refuse_damaged("dicts copy more items than the stream has");
  }
  push(make(std::move(node)));
}

void PickleMachine::call(Id callee, Id arguments, bool is_instance) {
  const Node& target = pickle_.nodes_[callee];
  if (target.kind != PickleKind::global) refuse_damaged("the opcode calls ", pickle_[callee].describe());
  if (pickle_.nodes_[arguments].kind != PickleKind::tuple)
    refuse_damaged("the arguments of ", printable_text(target.text), " are ", pickle_[arguments].describe(),
                   " instead of a tuple");
  const GlobalUse use = target.use;
  if (use == GlobalUse::value || (is_instance && use == GlobalUse::function))
    refuse_code("the stream ", is_instance ? "makes an instance of " : "calls ", printable_text(target.text));
  if (ends_with(target.text, "._reconstructor")) return call_reconstructor(arguments);
  if (use == GlobalUse::dictionary) return push_dictionary(callee, arguments);
  Node node{.kind = PickleKind::object, .use = use, .global = callee, .arguments = arguments};
  deepen(node, arguments);
  push(make(std::move(node)));
}

void PickleMachine::build() {
  const Id state = pop();
  Node& node = pickle_.nodes_[top()];
  if (node.use == GlobalUse::dictionary && node.kind == PickleKind::dict) return;
  if (node.kind != PickleKind::object || node.use != GlobalUse::type)
    refuse_code("the stream sets the state of ", pickle_[top()].describe());
  if (node.state != kNone) refuse_damaged("the stream sets the state of ", pickle_[top()].describe(), " twice");
  deepen(node, state);
  node.state = state;
}

}  // namespace mtl
