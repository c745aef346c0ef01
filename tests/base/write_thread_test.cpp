// A thread that writes blocks: all of them, in order, and its errors reach the caller.
#include "base/write_thread.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>

#include "base/error.h"
#include "tests/error_of.h"

using namespace mtl;
using test::error_of;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("write thread: writes all blocks in order") {
  std::string written, expected;
  WriteThread thread([&](std::span<const std::byte> block) {
    written.append(reinterpret_cast<const char*>(block.data()), block.size());
  });
  for (int i = 0; i < 1000; ++i) {
    std::string text(i % 37, static_cast<char>('a' + i % 26));
    thread.push(bytes_of(text));
    expected += text;
    text.assign(text.size(), '?');  // the block was copied
  }
  thread.finish();
  CHECK(written == expected);
}

TEST_CASE("write thread: an error ends the writing, and is thrown with its code") {
  std::atomic<int> calls = 0;
  const auto fail_third = [&](std::span<const std::byte>) {
    if (++calls == 3) fail(Exit::io, "the disk is full");
  };
  {
    WriteThread thread(fail_third);
    for (int i = 0; i < 3; ++i) thread.push(bytes_of("block"));
    CHECK(error_of([&] { thread.finish(); }, Exit::io) == "the disk is full");
  }
  calls = 0;
  {
    WriteThread thread(fail_third);
    const auto push_many = [&] {
      for (int i = 0; i < 1000; ++i) thread.push(bytes_of("block"));
    };
    CHECK(error_of(push_many, Exit::io) == "the disk is full");
    CHECK(error_of(push_many, Exit::io) == "the disk is full");
  }
  CHECK(calls == 3);
}

TEST_CASE("write thread: without finish() it ends, and has written a beginning") {
  std::string written;
  {
    WriteThread thread([&](std::span<const std::byte> block) { written += static_cast<char>(block[0]); });
    for (const char* text : {"a", "b", "c", "d", "e"}) thread.push(bytes_of(text));
  }
  CHECK(std::string("abcde").starts_with(written));
}
