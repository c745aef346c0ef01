// The emulated streams behave like CUDA's. Without an event, two streams may run in any order. Pinned memory is read
// late. A graph replays. Calls that are not allowed during a capture are rejected.
#include "tests/mirror/queue.h"

#include <doctest/doctest.h>

#include <set>

#include "device/copy.h"
#include "device/event.h"
#include "device/graph.h"
#include "device/memory.h"
#include "tests/error_of.h"
#include "tests/mirror/scale.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Case {
  Stream stream{Device::cuda}, other{Device::cuda};
  Buffer memory{Device::cuda, 4}, pinned{Device::cuda, 4, Space::host};
  Tensor value = memory.tensor(DType::f32, {1});
  float* host = pinned.tensor(DType::f32, {1}).data<float>();

  void set(float to) { copy_from_host(stream, value, std::vector<float>{to}); }
  void send(Stream& by) { copy_from_pinned(by, value, {pinned.data(), 4}); }
  float get() { return host_copy<float>(stream, value)[0]; }
};

}  // namespace

TEST_CASE("a stream runs late: the host waits before it reads or overwrites pinned memory") {
  std::set<float> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    mirror::Deferral deferral(seed);
    Case c;
    *c.host = 1;
    c.send(c.stream);
    *c.host = 2;  // too early
    seen.insert(c.get());
    *c.host = 3;
    c.send(c.stream);
    c.stream.synchronize();
    *c.host = 4;
    CHECK(c.get() == 3);
  }
  CHECK(seen == std::set<float>{1, 2});
}

TEST_CASE("an event orders two streams; without it they run in any order") {
  std::set<float> unordered;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (bool ordered : {false, true}) {
      mirror::Deferral deferral(seed);
      Case c;
      c.set(1);
      *c.host = 5;
      c.send(c.other);
      Event sent(Device::cuda);
      sent.record(c.other);
      if (ordered) sent.order(c.stream);
      scale(c.stream, c.value, 2);
      c.stream.synchronize();
      c.other.synchronize();
      const float got = c.get();
      if (ordered)
        CHECK(got == 10);
      else
        unordered.insert(got);
    }
  }
  CHECK(unordered == std::set<float>{5, 10});
}

TEST_CASE("a graph replays its commands, each time on the current contents of memory") {
  Case c;
  c.set(3);
  Graph graph;
  CHECK_FALSE(graph.exists());
  graph.capture(c.stream, [&] {
    scale(c.stream, c.value, 2);
    scale(c.stream, c.value, 5);
  });
  CHECK(c.get() == 3);  // nothing has run yet
  graph.launch(c.stream);
  CHECK(c.get() == 30);
  graph.launch(c.stream);
  CHECK(c.get() == 300);
}

TEST_CASE("a capture includes the streams that it orders, if they rejoin") {
  Case c;
  Event begin(Device::cuda), end(Device::cuda);
  for (bool joined : {true, false}) {
    c.set(1);
    Graph graph;
    auto capture = [&] {
      graph.capture(c.stream, [&] {
        begin.record(c.stream);
        begin.order(c.other);
        scale(c.other, c.value, 7);
        end.record(c.other);
        if (joined) end.order(c.stream);
      });
    };
    if (!joined) {
      CHECK(test::error_of(capture).find("not joined") != std::string::npos);
      continue;
    }
    capture();
    graph.launch(c.stream);
    CHECK(c.get() == 7);
  }
}

TEST_CASE("a wait of the host within a capture is refused, and the capture is dropped") {
  Case c;
  c.set(2);
  Graph graph;
  CHECK(test::error_of([&] { graph.capture(c.stream, [&] { c.stream.synchronize(); }); }).find("captured") !=
        std::string::npos);
  CHECK(test::error_of([&] { graph.capture(c.stream, [&] { Buffer(Device::cuda, 8); }); }).find("captured") !=
        std::string::npos);
  CHECK(test::error_of([&] {
          graph.capture(c.stream, [&] { HostView(Device::cuda, c.value).receive(); });
        }).find("captured") != std::string::npos);
  CHECK_FALSE(graph.exists());
  scale(c.stream, c.value, 2);
  CHECK(c.get() == 4);
}
