#include "formats/pickle.h"

#include <bit>

#include "base/enum_index.h"
#include "base/error.h"
#include "base/printable.h"

namespace mtl {

namespace {

constexpr const char* kKindNames[] = {
    "None",   "a boolean", "an integer", "a long integer", "a real number", "a text",         "bytes",
    "a list", "a tuple",   "a set",      "a dict",         "a global",      "an instance of", "a persistent reference"};

}  // namespace

PickleKind PickleValue::kind() const { return pickle_->nodes_[number_].kind; }

std::string PickleValue::describe() const {
  const std::string name = kKindNames[enum_index(kind())];
  if (is(PickleKind::object)) return cat(name, " ", printable_text(global()));
  return is(PickleKind::global) ? printable_text(global()) : name;
}

bool PickleValue::as_bool() const {
  if (!is(PickleKind::boolean)) fail(Exit::bad_data, describe(), ", not a boolean");
  return pickle_->nodes_[number_].integer != 0;
}

std::int64_t PickleValue::as_int() const {
  if (!is(PickleKind::integer)) fail(Exit::bad_data, describe(), ", not an integer");
  return pickle_->nodes_[number_].integer;
}

double PickleValue::as_number() const {
  if (is(PickleKind::real)) return std::bit_cast<double>(pickle_->nodes_[number_].integer);
  if (is(PickleKind::integer)) return double(pickle_->nodes_[number_].integer);
  fail(Exit::bad_data, describe(), ", not a number");
}

std::string_view PickleValue::as_text() const {
  if (!is(PickleKind::text) && !is(PickleKind::bytes)) fail(Exit::bad_data, describe(), ", not a text");
  return pickle_->nodes_[number_].text;
}

std::string_view PickleValue::as_digits() const {
  if (!is(PickleKind::big_integer)) fail(Exit::bad_data, describe(), ", not a long integer");
  return pickle_->nodes_[number_].text;
}

std::size_t PickleValue::size() const {
  const std::size_t items = pickle_->nodes_[number_].items.size();
  return is(PickleKind::dict) ? items / 2 : items;
}

PickleValue PickleValue::at(std::size_t i) const { return {pickle_, pickle_->nodes_[number_].items.at(i)}; }
PickleValue PickleValue::key(std::size_t i) const { return {pickle_, pickle_->nodes_[number_].items.at(2 * i)}; }
PickleValue PickleValue::value(std::size_t i) const { return {pickle_, pickle_->nodes_[number_].items.at(2 * i + 1)}; }

template <class IsKey>
std::optional<PickleValue> PickleValue::find_key(const IsKey& is_key) const {
  for (std::size_t i = is(PickleKind::dict) ? size() : 0; i-- > 0;) {
    if (is_key(key(i))) return value(i);
  }
  return std::nullopt;
}

std::optional<PickleValue> PickleValue::find(std::string_view name) const {
  const auto is_name = [&](PickleValue key) { return key.is(PickleKind::text) && key.as_text() == name; };
  return (is(PickleKind::object) ? state() : *this).find_key(is_name);
}

std::optional<PickleValue> PickleValue::find(std::int64_t number) const {
  return find_key([&](PickleValue key) { return key.is(PickleKind::integer) && key.as_int() == number; });
}

std::optional<PickleValue> PickleValue::find_not_none(std::string_view name) const {
  const std::optional<PickleValue> value = find(name);
  return value && value->is(PickleKind::none) ? std::nullopt : value;
}

std::string PickleValue::global() const {
  const Pickle::Node& node = pickle_->nodes_[number_];
  if (node.kind == PickleKind::global) return std::string(node.text);
  return node.kind == PickleKind::object ? std::string(pickle_->nodes_[node.global].text) : "";
}

PickleValue PickleValue::arguments() const { return {pickle_, pickle_->nodes_[number_].arguments}; }
PickleValue PickleValue::state() const { return {pickle_, pickle_->nodes_[number_].state}; }

PickleValue PickleValue::persistent_id() const {
  if (!is(PickleKind::persistent)) fail(Exit::bad_data, describe(), ", not a persistent reference");
  return {pickle_, pickle_->nodes_[number_].arguments};
}

}  // namespace mtl
