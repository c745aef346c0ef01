// Errors: their messages are complete, and those of system calls name a remedy.
#include "base/error.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>

#include "base/usage_error.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

using namespace mtl;

TEST_CASE("error: a NUL byte does not end a message") {
  const std::string name("gp\0t2", 5);
  CHECK(std::string(Error(Exit::bad_data, cat("\"", name, "\" is unknown; use gpt2")).what()) ==
        "\"gp\\0t2\" is unknown; use gpt2");
  const Error at(Exit::bad_data, name, "is unknown; use gpt2");
  CHECK(at.where() == "gp\\0t2");
  CHECK(at.message() == "is unknown; use gpt2");
  CHECK(std::string(UsageError({{name, "is unknown"}, {"--lr", "is 0"}}).what()).ends_with("--lr   is 0"));
}

TEST_CASE("error: a message leaves out its place where the reader sees it already") {
  const Error error(Exit::io, "a b.idx", "is missing");
  for (const char* place : {"a b.idx", "--data-path a b.idx"}) CHECK(error.message_at(place) == "is missing");
  for (const char* place : {"b.idx", "--data-path c/a b.idx", ""})
    CHECK(error.message_at(place) == "a b.idx: is missing");
  CHECK(Error(Exit::io, "x: lost").message_at("--x ") == "x: lost");
}

TEST_CASE("error: a failed system call names its remedy") {
  const test::ScratchFolder folder;
  const std::string link = folder / "lock";
  std::filesystem::create_symlink("nowhere", link);
  const auto message = [](int code, const std::string& path) {
    errno = code;
    return test::error_of([&] { fail_errno(path, "open"); }, Exit::io);
  };
  CHECK(message(ENOENT, folder / "absent") == folder / "absent" + ": cannot open: No such file or directory");
  CHECK(message(ENOENT, link) == link +
                                     ": cannot open: No such file or directory; it is a symbolic link to nowhere, "
                                     "which does not exist; remove or correct the link");
  CHECK(test::contains(message(EMFILE, "a.bin"), "Too many open files; raise the limit on open files (ulimit -n"));
}
