// The emulated memory: the process crashes if the host accesses it, so such an access fails the test at any point in a
// run.
#include "tests/mirror/space.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "device/copy.h"
#include "device/memory.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"

using namespace mtl;

namespace {

/// Runs the function in a child process. Returns 0, or the signal that terminated it.
template <class Body>
int signal_ending(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    body();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

struct OnDevice {
  Stream stream{Device::cuda};
  Buffer memory{Device::cuda, 64};
  Tensor x = memory.tensor(DType::f32, {4}), y = memory.tensor(DType::f32, {4}, 32);
};

}  // namespace

TEST_CASE("data sent by the host comes back, and operators compute in between") {
  OnDevice d;
  CHECK(host_copy<float>(d.stream, d.x) == std::vector<float>(4, 0.0f));
  copy_from_host(d.stream, d.x, std::vector<float>{1, 2, 3, 4});
  copy(d.stream, d.y, d.x);
  fill_zero(d.stream, d.x);
  CHECK(host_copy<float>(d.stream, d.x) == std::vector<float>(4, 0.0f));
  CHECK(host_copy<float>(d.stream, d.y) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("a command that accesses memory beside its operands kills the process") {
  OnDevice d;
  const Buffer other(Device::cuda, 64);
  const Tensor z = other.tensor(DType::f32, {4});
  volatile float seen = 0;
  const auto reads = [&](const Tensor& tensor) {
    return signal_ending([&] {
      const mirror::Opened opened({{d.x.raw(), d.x.bytes()}});
      seen = tensor.data<float>()[3];
    });
  };
  CHECK(reads(d.x) == 0);
  CHECK(reads(z) == SIGSEGV);
}

TEST_CASE("a deliberate host access kills the process") {
  OnDevice d;
  CHECK(signal_ending([&] { fill_zero(d.stream, d.x); }) == 0);
  volatile float seen = 0;
  CHECK(signal_ending([&] { seen = d.x.data<float>()[3]; }) == SIGSEGV);
  CHECK(signal_ending([&] { *d.x.data<float>() = 1; }) == SIGSEGV);
  CHECK(signal_ending([&] {
          fill_zero(d.stream, d.x);
          seen = *d.x.data<float>();  // inaccessible again after the operator
        }) == SIGSEGV);
  CHECK(signal_ending([&] {
          float host[4] = {};
          std::memcpy(host, d.x.raw(), sizeof host);
          seen = host[0];
        }) == SIGSEGV);
  CHECK(signal_ending([&] {
          float* stale = nullptr;
          {
            Buffer gone(Device::cuda, 64);
            stale = gone.tensor(DType::f32, {1}).data<float>();
          }
          seen = *stale;
        }) == SIGSEGV);
}

TEST_CASE("an operator that throws leaves the device's memory closed") {
  OnDevice d;
  Buffer more(Device::cuda, 256);
  Tensor x = more.tensor(DType::f32, {1, 4}), positions = more.tensor(DType::i32, {1}, 64),
         table = more.tensor(DType::f32, {2, 4}, 128);
  copy_from_host(d.stream, positions, std::vector<std::int32_t>{2});
  CHECK_THROWS_WITH_AS(positions_forward(d.stream, x, positions, table, {}, {}), doctest::Contains("position"), Error);
  volatile float seen = 0;
  CHECK(signal_ending([&] { seen = *x.data<float>(); }) == SIGSEGV);
}

TEST_CASE("an operator on the device refuses host memory") {
  OnDevice d;
  float on_host[4] = {1, 2, 3, 4};
  const Tensor x(on_host, DType::f32, {4});
  CHECK_THROWS_WITH_AS(copy(d.stream, d.x, x), doctest::Contains("host memory"), Error);
  CHECK_THROWS_WITH_AS(copy_from_host(d.stream, x, std::vector<float>(4)), doctest::Contains("host memory"), Error);
}
