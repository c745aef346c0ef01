// The command after a save: what it gets, how its end is reported, and that it can be ended.
#include "train/save_command.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/files.h"
#include "tests/scratch_folder.h"
#include "tests/stderr_of.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Runs a command for the checkpoint "ck/iter_0000012" to its end, and returns what arrives on stderr.
std::string run_command(const std::string& text) {
  return stderr_of([&] {
    Console console("test");
    SaveCommand command(text, console);
    command.start("ck/iter_0000012", 12);
    while (!command.wait(1)) {
    }
  });
}

}  // namespace

TEST_CASE("save command: gets the checkpoint, and writes to stderr only") {
  CHECK(run_command("echo \"$MTL_CHECKPOINT $MTL_ITERATION\"; cat") ==
        std::filesystem::absolute("ck/iter_0000012").string() + " 12\n");
  CHECK(run_command("") == "");
}

TEST_CASE("save command: a failure is a warning") {
  CHECK(run_command("exit 7") ==
        "test: warning: --after-save: the command for ck/iter_0000012 failed with exit code 7; the run continues\n");
  CHECK(run_command("kill -9 $$") ==
        "test: warning: --after-save: the command for ck/iter_0000012 was ended by signal 9; the run continues\n");
}

TEST_CASE("save command: runs in the background, apart from the run's signals, until it is ended") {
  const ScratchFolder scratch;
  const std::string group = scratch / "group",
                    text = cat("ps -o pgid= $$ >", group, ".new; mv ", group, ".new ", group);
  const std::string warnings = stderr_of([&] {
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);  // as mtl-train does
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
    Console console("test");
    SaveCommand command(text + "; sleep 1000 & sleep 1000", console);
    command.start("ck", 1);
    CHECK(!command.wait(0));
    while (!file_exists(group)) CHECK(!command.wait(0.01));
    CHECK(parse_int(trim(read_file(group))) != ::getpgrp());
    command.end();
    CHECK(command.wait(0));
    command.end();  // has no effect
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  });
  CHECK(
      warnings ==
      "test: warning: --after-save: the command for ck is ended, because it still runs 20 seconds after the run had to "
      "end\n");
}
