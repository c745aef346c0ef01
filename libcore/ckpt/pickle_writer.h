// Writes a pickle of protocol 2 (CPython's Lib/pickletools.py describes the opcodes), front to back: each call appends
// a value, or an operation on the preceding values.
//
//   pickle.begin_dict();
//   pickle.text("iteration"), pickle.integer(30);
//   pickle.end_dict();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mtl {

class PickleWriter {
 public:
  PickleWriter() { out_ = "\x80\x02"; }

  void none() { out_ += 'N'; }
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void integer(std::int64_t value);
  void number(double value);
  void text(std::string_view value);
  /// A class or function by its module and name, such as "torch", "FloatStorage".
  void global(std::string_view module, std::string_view name);

  /// The calls between begin_dict() and end_dict() append keys and values in turn.
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void begin_tuple() { out_ += '('; }
  void end_tuple() { out_ += 't'; }

  /// Replaces the last two values, a function and its tuple of arguments, by the call's result.
  void reduce() { out_ += 'R'; }
  /// Replaces the last two values, a class and its tuple of arguments, by an instance.
  void new_object() { out_ += '\x81'; }
  /// Removes the last value, a dict, and makes it the state of the object before it.
  void build() { out_ += 'b'; }
  /// Replaces the last value, an id, by a reference to the object outside the pickle that has this id.
  void persistent_id() { out_ += 'Q'; }

  /// Returns the complete pickle. Must be the last call.
  std::string finish() {
    out_ += '.';
    return std::move(out_);
  }

 private:
  std::string out_;
};

}  // namespace mtl
