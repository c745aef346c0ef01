// Logs that can fail without ending the run, for example on a full disk or a closed pipe.
//
// A LogSink warns at the first failure, tries again with each later record, and counts lost records. A LogFile appends
// complete records. If it can write only part of a record, it removes that part.
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
  /// In messages, `name` is the log's name and `unit` is the word for a lost record, such as "line".
  LogSink(std::string name, std::string unit, Console& console)
      : name_(std::move(name)), unit_(std::move(unit)), console_(console) {}

  /// Runs `write`. If it throws Error(io), counts `count` lost units, and warns the first time. Rethrows other errors.
  void attempt(std::int64_t count, const std::function<void()>& write);
  /// Warns if records have been lost since the last call.
  void report_lost();
  std::int64_t lost() const { return lost_; }

 private:
  std::string name_, unit_, reason_;
  Console& console_;
  std::int64_t lost_ = 0, reported_ = 0;
};

class LogFile {
 public:
  /// Opens `path` for appending, creating it if necessary. Throws Error(io).
  explicit LogFile(const std::string& path);
  /// Appends the entire record. On failure, throws Error(io) and leaves a regular file unchanged.
  void write(std::string_view record);
  /// Syncs the file to disk. Has no effect on a pipe or a device. Throws Error(io).
  void sync();
  const std::string& path() const { return file_.path(); }

 private:
  OutputFile file_;
  bool is_regular_;  // pipes and devices cannot be truncated or synced
};

/// Returns the seconds since 1970.
double wall_time();

/// Writes to standard output without buffering, so that failures are reported immediately. Throws Error(io).
void write_stdout(std::string_view text);

}  // namespace mtl
