// MPI communication between real ranks: results equal a local computation in rank order, bit for bit. Run by mpirun
// with 2, 4 and 8 ranks.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "comm/agreement.h"
#include "comm/groups.h"
#include "comm/mpi_session.h"
#include "comm/text_exchange.h"
#include "tests/comm/collective_trials.h"

using namespace mtl;
using namespace mtl::test;

namespace {

MpiSession* session = nullptr;

std::vector<int> all_ranks() {
  std::vector<int> ranks(static_cast<std::size_t>(session->world()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Communicator& control_group() {
  static std::shared_ptr<Communicator> group = session->group(all_ranks(), "all");
  return *group;
}

}  // namespace

TEST_CASE("each operation, one at a time, with odd sizes") {
  std::vector<int> ranks = all_ranks();
  std::uint64_t seed = 1;
  auto check = [&](Trial&& trial) {
    trial.work.join();
    CHECK(trial.is_correct());
    ++seed;
  };
  // Covers:
  // - 0 and 1 elements
  // - sizes below, at and above the small-message limit (2048 floats, 4096 16-bit elements)
  // - sizes not divisible by the rank count
  // - multiple segments
  for (std::int64_t count : {0, 1, 3, 2047, 2048, 2049, 4096, 4097, 32768 * 3 + 1, 700001}) {
    CAPTURE(count);
    check(AllReduceTrial<float>(control_group(), ranks, seed, count));
    check(AllReduceTrial<double>(control_group(), ranks, seed, count));
    check(AllReduceTrial<Bf16>(control_group(), ranks, seed, count));
    check(AllReduceTrial<Half>(control_group(), ranks, seed, count));
    check(ReduceScatterTrial<Bf16>(control_group(), ranks, seed, count / 4, true));
    check(ReduceScatterTrial<Half>(control_group(), ranks, seed, count / 4, false));
    check(ReduceScatterTrial<float>(control_group(), ranks, seed, count / 4, true));
    check(ReduceScatterTrial<double>(control_group(), ranks, seed, count / 4, false));
    check(AllGatherTrial<std::int32_t>(control_group(), ranks, seed, count / 4, true));
    check(AllGatherTrial<float>(control_group(), ranks, seed, count / 4, false));
    check(BroadcastTrial<double>(control_group(), ranks, seed, count, control_group().size() - 1));
  }
}

template <class T>
void compare_reductions() {
  Communicator& group = control_group();
  std::int64_t part = 12345;
  std::vector<T> a = contribution<T>(5, group.rank(), part * group.size()), b = a;
  group.all_reduce(stream, tensor_of(a)).join();
  Tensor whole = tensor_of(b), own = whole.flat(group.rank() * part, part);
  group.reduce_scatter(stream, own, whole).join();
  group.all_gather(stream, whole, own).join();
  CHECK(same_bits(a, b));
}

TEST_CASE("an all-reduce equals a reduce-scatter followed by an all-gather, bit for bit") {
  compare_reductions<float>();
  compare_reductions<Bf16>();
  compare_reductions<Half>();
}

TEST_CASE("16-bit sums have the same bits on every rank, and one rank's NaN and infinity reach all") {
  Communicator& group = control_group();
  for (std::int64_t count : {3, 50001}) {
    CAPTURE(count);
    std::vector<Bf16> sums = contribution<Bf16>(9, group.rank(), count);
    if (group.rank() == group.size() - 1) {
      sums.front() = narrow<Bf16>(std::numeric_limits<float>::quiet_NaN());
      sums.back() = narrow<Bf16>(std::numeric_limits<float>::infinity());
    }
    group.all_reduce(stream, tensor_of(sums)).join();
    CHECK(std::isnan(widen(sums.front())));
    CHECK(std::isinf(widen(sums.back())));
    std::vector<Bf16> of_rank_0 = sums;
    group.broadcast(stream, tensor_of(of_rank_0), 0).join();
    CHECK(same_bits(sums, of_rank_0));
  }
}

TEST_CASE("chained operations need no wait between them") {
  Communicator& group = control_group();
  std::int64_t part = 9001;
  std::vector<float> a = contribution<float>(6, group.rank(), part * group.size()), b = a, c(a.size());
  std::vector<float> sums(static_cast<std::size_t>(part));
  group.all_reduce(stream, tensor_of(a)).join();
  Work reduced = group.reduce_scatter(stream, tensor_of(sums), tensor_of(b));
  group.all_gather(stream, tensor_of(c), tensor_of(sums)).join();
  CHECK(same_bits(a, c));
}

TEST_CASE("hundreds of random operations are correct with many in flight") {
  std::mt19937_64 random(20261121);
  std::vector<int> ranks = all_ranks();
  std::deque<std::unique_ptr<Trial>> in_flight;
  int wrong = 0;
  auto finish_oldest = [&] {
    in_flight.front()->work.join();
    if (!in_flight.front()->is_correct()) ++wrong;
    in_flight.pop_front();
  };
  for (int i = 0; i < 240; ++i) {
    in_flight.push_back(random_trial(control_group(), ranks, random));
    std::size_t limit = random() % 24;
    while (in_flight.size() > limit) finish_oldest();
    if (!in_flight.empty() && random() % 3 == 0) in_flight.back()->work.done();
  }
  while (!in_flight.empty()) finish_oldest();
  CHECK(wrong == 0);
}

TEST_CASE("overlapping groups: rows and columns of a grid communicate at once") {
  RankGrid grid({.tensor = 2, .data = session->world() / 2});
  std::vector<int> row = grid.group_of(session->rank(), Axis::tensor),
                   column = grid.group_of(session->rank(), Axis::data);
  auto tensor = session->group(row, "row"), data = session->group(column, "column");
  std::mt19937_64 random(7);
  int wrong = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<Trial>> trials;
    for (int i = 0; i < 4; ++i) {
      trials.push_back(random_trial(*tensor, row, random));
      trials.push_back(random_trial(*data, column, random));
      trials.push_back(random_trial(control_group(), all_ranks(), random));
    }
    // Waits in a different order than the starts. Half of the ranks reverse it.
    if (session->rank() % 2 == 0) std::reverse(trials.begin(), trials.end());
    for (auto& trial : trials) {
      trial->work.join();
      if (!trial->is_correct()) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

// Before other messages, so that those in both channels have the same numbers.
TEST_CASE("send and receive: the order of messages is free between channels, and kept within one") {
  const int peer = session->rank() ^ 1;
  constexpr std::uint64_t kMessages = 4;
  std::vector<std::vector<float>> out, in;
  std::vector<Work> works;
  const auto channel_of = [](std::uint64_t i) { return i % 2 == 0 ? Channel::activations : Channel::gradients; };
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    out.push_back(contribution<float>(i, session->rank(), 400001));
    in.emplace_back(out.back().size());
  }
  for (std::uint64_t i = 0; i < kMessages; ++i)
    works.push_back(control_group().send(stream, tensor_of(out[i]), peer, channel_of(i)));
  for (const std::uint64_t i : {1, 3, 0, 2})
    works.push_back(control_group().receive(stream, tensor_of(in[i]), peer, channel_of(i)));
  for (Work& work : works) work.join();
  for (std::uint64_t i = 0; i < kMessages; ++i) CHECK(same_bits(in[i], contribution<float>(i, peer, 400001)));
}

TEST_CASE("send and receive: a ring in both directions at once keeps the order of messages") {
  int world = session->world(), next = (session->rank() + 1) % world, previous = (session->rank() + world - 1) % world;
  for (std::int64_t count : {0, 1, 1000, 400001}) {
    CAPTURE(count);
    std::vector<std::vector<float>> out, in;
    std::vector<Work> works;
    constexpr int kMessages = 5;
    for (int i = 0; i < 2 * kMessages; ++i) {
      out.push_back(contribution<float>(static_cast<std::uint64_t>(i), session->rank(), count));
      in.emplace_back(static_cast<std::size_t>(count));
    }
    for (std::size_t i = 0; i < 2 * kMessages; ++i) {
      int to = i < kMessages ? next : previous, from = i < kMessages ? previous : next;
      if (session->rank() % 2 == 0)
        works.push_back(control_group().send(stream, tensor_of(out[i]), to, Channel::activations));
      works.push_back(control_group().receive(stream, tensor_of(in[i]), from, Channel::activations));
      if (session->rank() % 2 == 1)
        works.push_back(control_group().send(stream, tensor_of(out[i]), to, Channel::activations));
    }
    for (Work& work : works) work.join();
    for (std::size_t i = 0; i < 2 * kMessages; ++i)
      CHECK(same_bits(in[i], contribution<float>(i, i < kMessages ? previous : next, count)));
  }
}

TEST_CASE("a completed send releases its buffer, and collectives overtake a pending send") {
  int peer = session->rank() ^ 1;
  std::vector<double> out(200000, session->rank()), in(200000);
  Work sent = control_group().send(stream, tensor_of(out), peer, Channel::activations);
  // The peer has not posted its receive yet, but all-reduces still complete.
  AllReduceTrial<float> sum(control_group(), all_ranks(), 3, 50000);
  sum.work.join();
  CHECK(sum.is_correct());
  Work received = control_group().receive(stream, tensor_of(in), peer, Channel::activations);
  sent.join();
  std::fill(out.begin(), out.end(), -1);
  received.join();
  CHECK(in == std::vector<double>(200000, peer));
}

TEST_CASE("operations progress while the rank computes") {
  // The sum has too many segments to complete in one poll. Calls done() once after a delay. Doubles the delay until
  // this is enough, because there may be more ranks than cores.
  bool completed = false;
  for (int milliseconds = 250; milliseconds <= 4000 && !completed; milliseconds *= 2) {
    session->barrier();
    AllReduceTrial<float> sum(control_group(), all_ranks(), 4, 2000000);
    control_group().progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    float ended = sum.work.done() ? 1 : 0;
    sum.work.join();
    CHECK(sum.is_correct());
    control_group().all_reduce(stream, Tensor(&ended, DType::f32, {1})).join();
    completed = ended == static_cast<float>(session->world());
  }
  CHECK(completed);
}

TEST_CASE("texts of different lengths are gathered and broadcast") {
  auto text = [](int rank) {
    return rank == 0 ? std::string() : std::string(static_cast<std::size_t>(rank * 1000), 'x');
  };
  std::vector<std::string> texts = gather_texts(control_group(), text(session->rank()));
  for (int rank = 0; rank < session->world(); ++rank) CHECK(texts[static_cast<std::size_t>(rank)] == text(rank));
  int root = session->world() - 1;
  CHECK(broadcast_text(control_group(), text(session->rank()), root) == text(root));
  CHECK(session->hosts().size() == static_cast<std::size_t>(session->world()));
}

TEST_CASE("a grid has a process group per axis, and a grid of another size is refused") {
  int world = session->world();
  Layout layout{.grid = RankGrid({.pipeline = world}), .rank = session->rank()};
  ProcessGroups groups = make_groups(*session, layout);
  CHECK(groups.world().size() == world);
  CHECK(groups.over(Axis::pipeline).rank() == session->rank());
  CHECK(groups.over(Axis::tensor).size() == 1);
  bool holds_table = session->rank() == 0 || session->rank() == world - 1;
  CHECK(groups.tied().size() == (holds_table ? 2 : 1));
  std::vector<float> one = {1};
  groups.tied().all_reduce(stream, tensor_of(one)).join();
  CHECK(one[0] == static_cast<float>(groups.tied().size()));
  CHECK_THROWS_AS(make_groups(*session, Layout{}), Error);
}

TEST_CASE("operations that the group cannot perform are refused before they start") {
  Communicator& group = control_group();
  const int rank = group.rank();
  Stream stream(Device::cpu);
  std::vector<float> values(8);
  const auto tensor = [&](std::int64_t count, DType type) { return Tensor(values.data(), type, {count}); };
  const Tensor one = tensor(1, DType::f32), integers = tensor(1, DType::i32);
  for (const int root : {-1, group.size()}) {
    CHECK_THROWS_WITH(group.broadcast(stream, one, root), doctest::Contains("has no rank"));
    CHECK_THROWS_WITH(group.send(stream, one, root, Channel::activations), doctest::Contains("no peer"));
  }
  CHECK_THROWS_WITH(group.receive(stream, one, rank, Channel::activations), doctest::Contains("no peer"));
  CHECK_THROWS(group.all_reduce(stream, integers));
  CHECK_THROWS(group.reduce_scatter(stream, integers, tensor(group.size(), DType::i32)));
  CHECK_THROWS(group.reduce_scatter(stream, one, one));
  CHECK_THROWS(group.all_gather(stream, one, one));
  if (rank == 0) CHECK_THROWS_WITH(session->group({1, 2}, "others"), doctest::Contains("rank 0 is not a member"));
  session->barrier();
}

TEST_CASE("disagreement between ranks names the rank that differs") {
  std::vector<AgreedItem> items = {{"program", "abc"}, {"command line", "--layers 2\n--lr 1e-4\n--seed 1"}};
  CHECK_NOTHROW(check_same(control_group(), session->hosts(), items));
  int odd = session->world() - 1;
  if (session->rank() == odd) items[1].text = "--layers 2\n--lr 2e-4\n--seed 1";
  try {
    check_same(control_group(), session->hosts(), items);
    FAIL("agreed on different command lines");
  } catch (const Error& error) {
    std::string message = error.what();
    CAPTURE(message);
    CHECK(error.code() == Exit::usage);
    CHECK(message.find(cat("rank ", odd, " (")) != std::string::npos);
    CHECK(message.find("'--lr 2e-4'") != std::string::npos);
    CHECK(message.find("'--lr 1e-4'") != std::string::npos);
    CHECK(message.find("program:") == std::string::npos);
  }
}

int main(int argc, char** argv) {
  RankEnvironment launched = launched_ranks("mtl_test_mpi");
  if (launched.world < 2) {
    std::fprintf(stderr, "start it with mpirun -n 2 (or 4, or 8)\n");
    return 2;
  }
  MpiSession job(launched);
  job.set_deadline(30);
  session = &job;
  doctest::Context context(argc, argv);
  if (launched.rank > 0) context.setOption("minimal", true);
  int result = context.run();
  std::fflush(stdout);
  if (result != 0) job.abort(result);
  return 0;
}
