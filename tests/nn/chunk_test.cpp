// What a chunk tells the owner of its parameters, with biases and without, in both ways of computing weight gradients.
#include "nn/chunk.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "optim/param_store.h"

using namespace mtl;

namespace {

GptConfig tiny(bool bias) {
  GptConfig config;
  config.vocab_size = 40;
  config.num_layers = 3;
  config.hidden_size = 16;
  config.num_heads = 2;
  config.max_positions = 8;
  config.linear_bias = bias;
  config.complete();
  return config;
}

/// How often each parameter was acquired and its gradient ended.
struct Recorder final : ParamEvents {
  explicit Recorder(int params) : acquired(static_cast<std::size_t>(params)), ended(acquired) {}
  void acquire(ParamRange params) override { count(acquired, params); }
  void gradients_ready(ParamRange params) override { count(ended, params); }
  static void count(std::vector<int>& counts, ParamRange params) {
    for (int param = params.first; param < params.end; ++param) ++counts.at(static_cast<std::size_t>(param));
  }
  std::vector<int> acquired, ended;
};

bool all_are(const std::vector<int>& counts, int value) {
  return std::all_of(counts.begin(), counts.end(), [&](int count) { return count == value; });
}

}  // namespace

TEST_CASE("every parameter is acquired before its unit runs, and its gradient ends once, biases or not") {
  for (bool bias : {false, true}) {
    for (ChunkRange range :
         {ChunkRange{0, 3, true, true}, {0, 1, true, false}, {1, 1, false, false}, {2, 1, false, true}}) {
      for (bool defers : {false, true}) {
        CAPTURE(bias);
        CAPTURE(range.first_layer);
        CAPTURE(defers);
        Chunk chunk(tiny(bias), {}, {}, range, 48);
        ParamStore store(Device::meta, kPrecisionFp32, AdamW::states(),
                         [&](const ParamVisitor& visit) { chunk.params(visit); });
        REQUIRE(store.size() > 0);
        std::string layer = cat("layers.", range.first_layer);
        CHECK(store.find(layer + ".norm1.bias") >= 0);
        for (const char* name : {".attention.qkv.bias", ".attention.out.bias", ".mlp.up.bias", ".mlp.down.bias"})
          CHECK((store.find(layer + name) >= 0) == bias);
        Recorder events(store.size());
        Stream stream(Device::meta);
        Arena slot(Device::meta, "slot", 0), scratch(Device::meta, "scratch", 0);
        ProcessGroups groups;
        Batch batch;
        batch.tokens = batch.positions = batch.labels = Tensor(nullptr, DType::i32, {1, 8});
        batch.loss_weights = Tensor(nullptr, DType::f32, {1, 8});
        Ctx ctx{stream, slot, scratch, groups, true, &events};
        ctx.ends_gradients = true;
        ctx.defers_weights = defers;
        Chunk::Cache cache = chunk.make_cache();
        Tensor input = range.first ? Tensor() : chunk.make_hidden(ctx, batch);
        store.begin_step();
        Tensor output = chunk.forward(ctx, input, batch, cache);
        CHECK(output.exists() == !range.last);
        CHECK(all_are(events.acquired, 1));
        CHECK(all_are(events.ended, 0));
        Tensor dinput = chunk.backward(ctx, output, batch.loss_weights, batch, cache);
        CHECK(dinput.exists() == !range.first);
        CHECK(all_are(events.ended, defers ? 0 : 1));
        if (defers) chunk.weights(ctx, cache);
        CHECK(all_are(events.ended, 1));
        CHECK_NOTHROW(store.check_all_written());
      }
    }
  }
}
