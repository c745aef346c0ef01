// Mapped files: if a file shrinks while it is being read, the error gives its name.
#include "base/mapped_faults.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <future>
#include <string>

#include "base/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

std::int64_t sum_of(const MappedFile& file) {
  volatile std::int64_t sum = 0;  // volatile so that the compiler keeps the reads
  for (std::byte b : file.bytes()) sum = sum + std::to_integer<int>(b);
  return sum;
}

}  // namespace

TEST_CASE("mapped faults: reading a file that shrinks is an error") {
  explain_bus_errors("test");
  const test::ScratchFolder folder;
  const std::string path = folder / "a", other = folder / "b";
  for (const std::string& name : {path, other}) {
    OutputFile out(name);
    out.write(std::string(100000, '\1'));
    out.close();
  }
  {
    MappedFile file(path), intact(other);
    CHECK(read_mapped([&] { return sum_of(file); }) == 100000);
    REQUIRE(::truncate(path.c_str(), 5000) == 0);
    CHECK(test::error_of([&] { read_mapped([&] { sum_of(file); }); }, Exit::io) ==
          path + " was truncated while it was read (5000 bytes instead of 100000); restore it and start again");
    // If the zeros cause another error, the truncation is reported instead. Reads in other threads fail too.
    CHECK(test::error_of([&] { read_mapped([&] { fail(Exit::bad_data, "hash"); }); }, Exit::io).starts_with(path));
    auto elsewhere = std::async(std::launch::async,
                                [&] { return test::error_of([&] { read_mapped([&] { sum_of(file); }); }, Exit::io); });
    CHECK(elsewhere.get().starts_with(path));
  }
  MappedFile intact(other);  // maps a new file after the failed one was unmapped
  CHECK(read_mapped([&] { return sum_of(intact); }) == 100000);
}
