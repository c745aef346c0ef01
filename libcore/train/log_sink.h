// Logs that may fail without ending the run, for example on a full disk or a closed pipe.
//
// A LogSink warns at the first failure, tries again with every further record, and counts the lost ones. A LogFile
// appends whole records: it removes a record that was written only in part.
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
  /// Messages call the log `name`, and lost records `unit`, such as "lines".
  LogSink(std::string name, std::string unit, Console& console)
      : name_(std::move(name)), unit_(std::move(unit)), console_(console) {}

  /// Runs `write`. If it throws Error(io), counts `count` lost units, and warns the first time. Rethrows other errors.
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
  /// Opens `path` for appending, and creates it if necessary. Throws Error(io).
  explicit LogFile(const std::string& path);
  /// Appends all of the record, or throws Error(io) and leaves a regular file as it was.
  void write(std::string_view record);
  /// Syncs the file to disk. Has no effect on a pipe or a device. Throws Error(io).
  void sync();
  const std::string& path() const { return file_.path(); }

 private:
  OutputFile file_;
  bool is_regular_;  // pipes and devices can be neither truncated nor synced
  std::uint64_t size_ = 0;
};

/// Writes to standard output, unbuffered, so that a failure is known at once. Throws Error(io).
void write_stdout(std::string_view text);

}  // namespace mtl
