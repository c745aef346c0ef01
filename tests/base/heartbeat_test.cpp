// Console::remind and Heartbeat: signs of life on stderr.
#include "base/heartbeat.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

/// Writes stderr into a file while it exists.
class StderrInFile {
 public:
  StderrInFile() : saved_(::dup(STDERR_FILENO)) {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    REQUIRE((saved_ >= 0 && file >= 0 && ::dup2(file, STDERR_FILENO) >= 0));
    ::close(file);
  }
  ~StderrInFile() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }
  std::string text() const { return read_file(path_); }
  /// Returns the text once it contains `part`, or after a minute.
  std::string wait_for(std::string_view part) const {
    for (int i = 0; i < 6000 && !test::contains(text(), part); ++i) ::usleep(10000);
    return text();
  }

 private:
  const test::ScratchFolder folder_;
  const std::string path_ = folder_ / "stderr";
  int saved_;
};

/// Makes a file this process's standard input while it exists. Closes the file.
class StdinFrom {
 public:
  explicit StdinFrom(int file) : saved_(::dup(STDIN_FILENO)) {
    REQUIRE((saved_ >= 0 && ::dup2(file, STDIN_FILENO) >= 0));
    ::close(file);
  }
  ~StdinFrom() {
    ::dup2(saved_, STDIN_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

constexpr double kNever = 3600;  // seconds

}  // namespace

TEST_CASE("heartbeat: a still program says what it does, again and again") {
  const StderrInFile error;
  Console console("mtl-x");
  const Heartbeat beats(console, "loading m", 0.01);
  CHECK(test::contains(error.wait_for("mtl-x: loading m, "), " so far\n"));
  const std::string twice = error.text() + "mtl-x";
  CHECK(error.wait_for(twice).size() >= twice.size());
}

TEST_CASE("heartbeat: nothing appears without a long silence, after the step, for \"\" or if quiet") {
  const StderrInFile error;
  Console console("mtl-x"), quiet("mtl-q");
  quiet.quiet = true;
  { const Heartbeat beats(console, "loading m", kNever); }  // and ends at once
  {
    const Heartbeat none(
        console, [] { return std::string(); }, 0.01);
    const Heartbeat also_none(quiet, "loading m", 0.01);
    Console other("mtl-y");
    const Heartbeat beats(other, "loading n", 0.01);
    error.wait_for("mtl-y: loading n");
  }
  CHECK_FALSE(test::contains(error.text(), "mtl-x"));
  CHECK_FALSE(test::contains(error.text(), "mtl-q"));
}

TEST_CASE("console: a reminder is not due soon after a message") {
  const StderrInFile error;
  Console console("mtl-x");
  console.remind("one", kNever);
  console.remind("two", 0);
  console.remind("three", kNever);
  console.info("four");
  console.remind("five", kNever);
  CHECK(error.text() == "mtl-x: two\nmtl-x: four\n");
}

TEST_CASE("console: a reminder is not due soon after a call of progress(), even one that printed nothing") {
  constexpr double kSilence = 0.2;
  const StderrInFile error;
  Console console("mtl-x");
  bool was_soon = false;
  while (!was_soon) {  // a busy machine may pause the test between the two calls
    ::usleep(int(kSilence * 1e6));
    const std::size_t printed = error.text().size();
    const double called = now_seconds();
    console.progress("one", kNever);
    console.remind("two", kSilence);
    was_soon = now_seconds() - called < kSilence / 2;
    if (was_soon) CHECK(error.text().size() == printed);
  }
}

TEST_CASE("heartbeat: an empty pipe, and nothing else, is waited for") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const StdinFrom input(ends[0]);
  CHECK(waits_for_stdin());
  CHECK(::write(ends[1], "x", 1) == 1);
  CHECK_FALSE(waits_for_stdin());
  char byte;
  CHECK(::read(STDIN_FILENO, &byte, 1) == 1);
  CHECK(waits_for_stdin());
  ::close(ends[1]);
  CHECK_FALSE(waits_for_stdin());  // the end can be read
}

TEST_CASE("heartbeat: a terminal for standard input is announced at once, a pipe is not") {
  const StderrInFile error;
  Console console("mtl-x");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  {
    const StdinFrom input(ends[0]);
    announce_terminal(console);
  }
  ::close(ends[1]);
  CHECK(error.text().empty());
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE((terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0));
  const StdinFrom input(::open(::ptsname(terminal), O_RDWR | O_NOCTTY));
  announce_terminal(console);
  CHECK(error.text() == "mtl-x: waiting for standard input, which Ctrl-D ends\n");
  ::close(terminal);
}
