// Writes a pickle of protocol 2 (CPython's Lib/pickletools.py describes the opcodes), front to back: each call appends
// the value that a reader finds next on its stack.
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

  /// Keys and values in turn.
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void begin_tuple() { out_ += '('; }
  void end_tuple() { out_ += 't'; }

  /// A call of the function with the tuple that follows it.
  void reduce() { out_ += 'R'; }
  /// An object of the class with the tuple that follows it.
  void new_object() { out_ += '\x81'; }
  /// Gives the object the state, a dict, that follows it.
  void build() { out_ += 'b'; }
  /// An object that the reader's program finds by the tuple before.
  void persistent_id() { out_ += 'Q'; }

  /// The whole pickle; nothing is written after it.
  std::string finish() {
    out_ += '.';
    return std::move(out_);
  }

 private:
  std::string out_;
};

}  // namespace mtl
