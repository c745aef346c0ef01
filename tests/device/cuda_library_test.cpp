// CUDA libraries: opened on first use. The tests use libm in their place.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "device/cuda_library.h"
#include "tests/error_of.h"

using namespace mtl;
using test::error_of;

namespace {

/// A function table as for a CUDA library.
struct Functions {
  CudaLibrary library{{"libmtl-none.so.1", "libm.so.6"}, "computes", "install it"};
  double (*cosine)(double) = library["cos"];
  float (*power)(float, float) = library["powf"];
};

}  // namespace

TEST_CASE("cuda_library: opens the first name that exists") {
  const Functions functions;
  CHECK(functions.library.name() == "libm.so.6");
  CHECK(functions.cosine(1.0) == std::cos(1.0));
  CHECK(functions.power(2.0f, 10.0f) == 1024.0f);
  CHECK(functions.library.has("sin"));
  CHECK_FALSE(functions.library.has("mtl_no_such_function"));
}

TEST_CASE("cuda_library: errors name the library, its purpose, the loader's reasons and the remedy") {
  const std::string missing =
      error_of([] { CudaLibrary({"libmtl-none.so.7"}, "multiplies matrices", "install cuBLAS"); });
  CHECK(missing.starts_with("cannot open libmtl-none.so.7, which multiplies matrices (libmtl-none.so.7: "));
  CHECK(missing.find("; /usr/local/cuda/lib64/libmtl-none.so.7: ") != std::string::npos);
  CHECK(missing.ends_with("; install cuBLAS"));
  const std::string path = error_of([] { CudaLibrary({"/nowhere/libm.so.6"}, "computes", "look elsewhere"); });
  CHECK(path.find("/usr/local") == std::string::npos);
  const Functions functions;
  CHECK(error_of([&] { functions.library["mtl_no_such_function"]; }) ==
        "libm.so.6 has no function mtl_no_such_function; install a later version of it");
}
