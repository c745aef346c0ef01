// Logs that may fail without ending the run, for example on a full disk or a closed pipe.
//
// A LogSink warns at the first failure, tries again with every further line, and counts those that are lost. A LogFile
// appends whole records: one that the disk takes only in part is cut off again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/console.h"
#include "base/files.h"

namespace mtl {

class LogSink {
 public:
  /// `name` for messages, `unit` what is counted: "lines".
  LogSink(std::string name, std::string unit, Console& console)
      : name_(std::move(name)), unit_(std::move(unit)), console_(console) {}

  /// Runs `write`. When it throws Error(io), `count` units are lost; the first time a warning says why. Other errors
  /// pass.
  void attempt(std::int64_t count, const std::function<void()>& write);
  /// Warns if records were lost since the last call.
  void report_lost();
  std::int64_t lost() const { return lost_; }

 private:
  std::string name_, unit_, reason_;
  Console& console_;
  std::int64_t lost_ = 0, reported_ = 0;
};

class LogFile {
 public:
  /// Appends to `path`, which it creates if necessary. Throws Error(io).
  explicit LogFile(const std::string& path);
  /// Appends all of the record, or throws Error(io) and leaves a regular file as it was.
  void write(std::string_view record);
  void sync();
  const std::string& path() const { return file_.path(); }

 private:
  OutputFile file_;
  bool is_regular_;  // not a pipe or device, which can neither be cut nor synced
  std::uint64_t size_ = 0;
};

/// Writes to standard output, unbuffered, so that a failure is known at once. Throws Error(io).
void write_stdout(std::string_view text);

}  // namespace mtl
