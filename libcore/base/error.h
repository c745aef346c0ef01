// The exception type for all errors, and the exit codes shared by all tools.
//
// An error message says what is wrong, where, and how to fix it. No code recovers from an error in the middle of a
// step: errors propagate to run_main() (apps/cli), which prints the message and exits with the error's code.
#pragma once

#include <stdexcept>
#include <string>

#include "base/str.h"

namespace mtl {

/// Exit codes. Scripts rely on these values.
enum class Exit : int {
  ok = 0,
  failure = 1,    // anything without a code below
  usage = 2,      // wrong flags or configuration
  recheck = 16,   // a step failed twice with equal results; on other machines, the same command tells why
  corrupt = 17,   // a machine computed wrong, or a step failed on all machines
  bad_data = 65,  // an input file violates its format
  io = 74,        // a read or write failed
  requeue = 75,   // a signal ended the run; start the job again to continue
};

/// Returns `text` with \0 for each NUL byte, which a file's text may contain, and at which what() would end.
inline std::string with_visible_nuls(std::string_view text) {
  return replace_all(text, std::string_view("", 1), "\\0");
}

class Error : public std::runtime_error {
 public:
  Error(Exit code, const std::string& what) : std::runtime_error(with_visible_nuls(what)), code_(code) {}
  /// what() reads "where: message". `where` is a file or folder, or a flag with its value.
  Error(Exit code, const std::string& where, const std::string& message)
      : std::runtime_error(with_visible_nuls(cat(where, ": ", message))),
        code_(code),
        where_size_(with_visible_nuls(where).size()) {}
  Exit code() const { return code_; }
  /// Returns `where` for callers that print it separately. Empty if the constructor without `where` was used.
  std::string where() const { return std::string(what()).substr(0, where_size_); }
  /// Returns what() without "where: ".
  std::string message() const { return std::string(what()).substr(where_size_ == 0 ? 0 : where_size_ + 2); }
  /// Returns message() if `place`, such as a flag with its value, is `where` or ends with it; otherwise what().
  std::string message_at(std::string_view place) const {
    return place == where() || ends_with(place, cat(" ", where())) ? message() : what();
  }

 private:
  Exit code_;
  std::size_t where_size_ = 0;
};

/// Error(io) that also stores the errno from a failed system call.
class SystemError : public Error {
 public:
  SystemError(const std::string& path, const std::string& message, int number)
      : Error(Exit::io, path, message), number_(number) {}
  int number() const { return number_; }  // errno

 private:
  int number_;
};

/// Throws Error(code) with the concatenated `parts` as its message: fail(Exit::bad_data, path, ": ", n, " bytes").
template <class... Parts>
[[noreturn]] void fail(Exit code, const Parts&... parts) {
  throw Error(code, cat(parts...));
}

/// Throws Error(code) with a separate `where`: fail_at(Exit::bad_data, path, "has ", n, " bytes").
template <class... Parts>
[[noreturn]] void fail_at(Exit code, const std::string& where, const Parts&... parts) {
  throw Error(code, where, cat(parts...));
}

/// Checks a contract between modules: throws Error(failure) with the concatenated `parts` unless `condition` is true.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(Exit::failure, parts...);
}

/// Calls work() and returns its result. If it throws an Error, throws one with the same code whose message begins with
/// the concatenated `parts`.
template <class Work, class... Parts>
auto with_prefix(const Work& work, const Parts&... parts) {
  try {
    return work();
  } catch (const Error& error) {
    fail(error.code(), parts..., error.what());
  }
}

/// Like with_prefix(), for work whose messages may already begin with `path`: leaves those as they are.
template <class Work, class... Parts>
auto with_path(const std::string& path, const Work& work, const Parts&... parts) {
  try {
    return work();
  } catch (const Error& error) {
    if (starts_with(error.what(), path)) throw;
    fail(error.code(), path, parts..., error.what());
  }
}

/// Calls work() and returns its result. If it throws an Error(bad_data), throws one with this `where`, whose message
/// begins with the concatenated `parts`.
template <class Work, class... Parts>
auto with_where(const std::string& where, const Work& work, const Parts&... parts) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    fail_at(Exit::bad_data, where, parts..., error.what());
  }
}

/// Returns what work() returns, or false if it throws an Error.
template <class Work>
bool passes(const Work& work) {
  try {
    return work();
  } catch (const Error&) {
    return false;
  }
}

/// Throws a SystemError that describes errno. With `action` "open", it reads
/// "path: cannot open: No such file or directory".
[[noreturn]] void fail_errno(const std::string& path, const std::string& action);

}  // namespace mtl
