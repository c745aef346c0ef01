// When a stage starts its receives.
#include "engine/pipeline.h"

#include <doctest/doctest.h>

#include "comm/groups.h"
#include "layout/schedule.h"
#include "optim/param_store.h"
#include "tests/gpt_of_size.h"

using namespace mtl;

namespace {

/// The FLOPs of a stage when it started each receive, and when it waited for it.
struct Journal {
  std::vector<double> started, waited;
};

class NotedReceive final : public Work::Operation {
 public:
  NotedReceive(Journal& journal, const Stream& stream) : journal_(journal), stream_(stream) {}
  bool done() override { return false; }
  void join() override { journal_.waited.push_back(stream_.counters().flops); }

 private:
  Journal& journal_;
  const Stream& stream_;
};

class NotingCommunicator final : public Communicator {
 public:
  NotingCommunicator(int rank, int size, Journal& journal) : meta_(rank, size), journal_(journal) {}
  int rank() const override { return meta_.rank(); }
  int size() const override { return meta_.size(); }
  Work all_reduce(Stream& stream, Tensor data) override { return meta_.all_reduce(stream, data); }
  Work all_gather(Stream& stream, Tensor out, Tensor in) override { return meta_.all_gather(stream, out, in); }
  Work reduce_scatter(Stream& stream, Tensor out, Tensor in) override { return meta_.reduce_scatter(stream, out, in); }
  Work broadcast(Stream& stream, Tensor data, int root) override { return meta_.broadcast(stream, data, root); }
  Work send(Stream& stream, Tensor data, int peer) override { return meta_.send(stream, data, peer); }
  Work receive(Stream& stream, Tensor, int) override {
    journal_.started.push_back(stream.counters().flops);
    return Work(std::make_shared<NotedReceive>(journal_, stream));
  }

 private:
  MetaCommunicator meta_;
  Journal& journal_;
};

GptConfig tiny() { return test::gpt_of_size({.vocab = 40, .layers = 4, .hidden = 16, .heads = 2, .positions = 8}); }

}  // namespace

TEST_CASE("every receive but the first is started before the action before it computes") {
  for (int stage = 0; stage < 4; ++stage) {
    for (ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_forward_one_backward}) {
      CAPTURE(stage);
      CAPTURE(static_cast<int>(kind));
      RunShape shape;
      shape.seq_length = 8;
      shape.micro_batches = 6;
      shape.padded_vocab = 48;
      shape.layout.grid = RankGrid({.pipeline = 4});
      shape.layout.rank = stage;
      shape.layout.schedule = kind;
      Journal journal;
      ProcessGroups groups(shape.layout.grid, stage, [&](const std::vector<int>& ranks, const std::string&) {
        auto place = std::find(ranks.begin(), ranks.end(), stage) - ranks.begin();
        return std::make_shared<NotingCommunicator>(static_cast<int>(place), static_cast<int>(ranks.size()), journal);
      });
      Stage own = make_stage(tiny(), {}, shape.layout, shape.padded_vocab);
      ParamStore params(
          Device::meta, kPrecisionFp32, AdamW::states(), [&](const ParamVisitor& visit) { own.params(visit); },
          shape.layout);
      Stream stream(Device::meta);
      MemoryPlan plan = plan_training(tiny(), {}, shape);
      Pipeline pipeline(own, stream, groups, rank_schedule(shape.layout, 6), plan);
      BatchBuffers buffers(Device::meta, shape);
      params.begin_step();
      pipeline.train(buffers);
      CHECK(journal.started.size() == static_cast<std::size_t>((stage > 0 ? 6 : 0) + (stage < 3 ? 6 : 0)));
      REQUIRE(journal.waited.size() == journal.started.size());
      for (std::size_t i = 1; i < journal.started.size(); ++i) {
        CHECK(journal.waited[i] > journal.started[i]);       // something was computed meanwhile
        CHECK(journal.waited[i - 1] <= journal.started[i]);  // one at a time: buffers are few
      }
    }
  }
}
