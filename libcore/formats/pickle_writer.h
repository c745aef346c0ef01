// Writes a protocol 2 pickle from front to back. Each call appends a value, or an operation on the preceding values.
// The opcodes are described in CPython's Lib/pickletools.py.
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
  /// Appends a class or function, given by module and name, such as "torch" and "FloatStorage".
  void global(std::string_view module, std::string_view name);

  /// Between begin_dict() and end_dict(), the caller appends keys and values alternately.
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void begin_tuple() { out_ += '('; }
  void end_tuple() { out_ += 't'; }

  /// Replaces the last two values, a function and a tuple of arguments, with the result of the call.
  void reduce() { out_ += 'R'; }
  /// Replaces the last two values, a class and a tuple of arguments, with an instance of the class.
  void new_object() { out_ += '\x81'; }
  /// Removes the last value, a dict, and makes it the state of the object before it.
  void build() { out_ += 'b'; }
  /// Replaces the last value, an id, with a reference to the object outside the pickle that has this id.
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
