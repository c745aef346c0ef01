// A mapped file that becomes shorter while it is read is an error that names it.
#include "base/mapped_faults.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <string>

#include "base/files.h"
#include "cli/bus_error.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

std::string error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    CHECK(error.code() == Exit::io);
    return error.what();
  }
  return "";
}

std::int64_t sum_of(const MappedFile& file) {
  volatile std::int64_t sum = 0;  // its reads have an effect that the compiler cannot see
  for (std::byte b : file.bytes()) sum = sum + std::to_integer<int>(b);
  return sum;
}

}  // namespace

TEST_CASE("mapped faults: a file that becomes shorter while it is read") {
  explain_bus_errors("test");
  const test::ScratchFolder folder;
  const std::string path = folder / "a", other = folder / "b";
  for (const std::string& name : {path, other}) {
    OutputFile out(name);
    out.write(std::string(100000, '\1'));
    out.close();
  }
  {
    MappedFile file(path), sound(other);
    CHECK(read_mapped([&] { return sum_of(file); }) == 100000);
    REQUIRE(::truncate(path.c_str(), 5000) == 0);
    CHECK(
        error_of([&] { read_mapped([&] { sum_of(file); }); }) ==
        path +
            ": became shorter while it was read (5000 bytes instead of 100000); see that it is whole and start again");
    // What is thrown because of the zeros gives way to their cause; another thread's read of the file fails, too.
    CHECK(error_of([&] { read_mapped([&] { fail(Exit::bad_data, "hash"); }); }).starts_with(path));
    auto elsewhere =
        std::async(std::launch::async, [&] { return error_of([&] { read_mapped([&] { sum_of(file); }); }); });
    CHECK(elsewhere.get().starts_with(path));
  }
  MappedFile sound(other);  // the file that failed is not mapped any more
  CHECK(read_mapped([&] { return sum_of(sound); }) == 100000);
}
