// Writes a protocol 2 pickle from front to back. Each call appends a value, or an operation on the preceding values.
// The opcodes are described in CPython's Lib/pickletools.py.
//
//   pickle.begin_dict();
//   pickle.text("iteration"), pickle.integer(30);
//   pickle.end_dict();
//
// Of values that are known, dict(), tuple(), call() and object() append all at once:
//
//   pickle.dict("iteration", 30, "betas", [&] { pickle.tuple(0.9, 0.95); });
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mtl {

class PickleWriter {
 public:
  PickleWriter() { out_ = "\x80\x02"; }

  void none() { out_ += 'N'; }
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void integer(std::int64_t value);
  void number(double value);
  void text(std::string_view value);
  /// Appends a class or function, given by module and name, such as "torch" and "FloatStorage".
  void global(std::string_view module, std::string_view name);

  /// Appends values one after another: a bool, integer, double or text as Python's value of that type, nullptr as None,
  /// sizes as a tuple. A function appends its own.
  template <class... Values>
  void values(const Values&... all) {
    (value(all), ...);
  }

  /// Between begin_dict() and end_dict(), the caller appends keys and values alternately.
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void begin_tuple() { out_ += '('; }
  void end_tuple() { out_ += 't'; }
  /// Append a dict with the items of values(), keys and values alternately, or a tuple.
  void dict(const auto&... items) {
    begin_dict();
    values(items...);
    end_dict();
  }
  void tuple(const auto&... items) {
    begin_tuple();
    values(items...);
    end_tuple();
  }

  /// Replaces the last two values, a function and a tuple of arguments, with the result of the call.
  void reduce() { out_ += 'R'; }
  /// Replaces the last two values, a class and a tuple of arguments, with an instance of the class.
  void new_object() { out_ += '\x81'; }
  /// Removes the last value, a dict, and makes it the state of the object before it.
  void build() { out_ += 'b'; }
  /// Appends the result of a call with these arguments.
  void call(std::string_view module, std::string_view name, const auto&... arguments) {
    global(module, name);
    tuple(arguments...);
    reduce();
  }
  /// Appends an instance of a class, without attributes or with these, keys and values alternately.
  void object(std::string_view module, std::string_view name) {
    global(module, name);
    tuple();
    new_object();
  }
  void object(std::string_view module, std::string_view name, const auto&... attributes) {
    object(module, name);
    dict(attributes...);
    build();
  }
  /// Replaces the last value, an id, with a reference to the object outside the pickle that has this id.
  void persistent_id() { out_ += 'Q'; }

  /// Returns the complete pickle. Must be the last call.
  std::string finish() {
    out_ += '.';
    return std::move(out_);
  }

 private:
  template <class Value>
  void value(const Value& one) {
    if constexpr (std::is_invocable_v<const Value&>)
      one();
    else if constexpr (std::is_null_pointer_v<Value>)
      none();
    else if constexpr (std::is_same_v<Value, bool>)
      boolean(one);
    else if constexpr (std::is_integral_v<Value>)
      integer(one);
    else if constexpr (std::is_floating_point_v<Value>)
      number(one);
    else if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>)
      sizes(one);
    else
      text(one);
  }

  void sizes(const std::vector<std::int64_t>& all) {
    begin_tuple();
    for (const std::int64_t size : all) integer(size);
    end_tuple();
  }

  std::string out_;
};

}  // namespace mtl
